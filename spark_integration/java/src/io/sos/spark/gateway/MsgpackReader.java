package io.sos.spark.gateway;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Reads the subset of msgpack that the file protocol uses. The caller says what comes next; anything else, anything
 * longer than the input, and text that is not UTF-8 are a {@link ProtocolException}. Lengths are checked against the
 * bytes that are there before memory is taken for them.
 */
final class MsgpackReader {
    private static final int NIL = 0xc0;

    private final ByteBuffer in;

    MsgpackReader(ByteBuffer in) {
        this.in = in;
    }

    /** The array's size, which must be exactly {@code size}: a message of another length is of another version. */
    void array(int size, String what) throws ProtocolException {
        int actual = arraySize(what);
        if (actual != size) {
            throw new ProtocolException(what + " has " + actual + " elements instead of " + size);
        }
    }

    int arraySize(String what) throws ProtocolException {
        int tag = tag(what);
        if ((tag & 0xf0) == 0x90) {
            return tag & 0x0f;
        }
        return switch (tag) {
            case 0xdc -> (int) unsigned(2, what);
            case 0xdd -> bounded(unsigned(4, what), what);
            default -> throw unexpected(tag, "an array", what);
        };
    }

    boolean bool(String what) throws ProtocolException {
        int tag = tag(what);
        return switch (tag) {
            case 0xc2 -> false;
            case 0xc3 -> true;
            default -> throw unexpected(tag, "a boolean", what);
        };
    }

    /** A number from 0 to 2^63-1. */
    long number(String what) throws ProtocolException {
        long number = number(tag(what), what);
        if (number < 0) {
            throw new ProtocolException(what + " is negative");
        }
        return number;
    }

    String text(String what) throws ProtocolException {
        return text(tag(what), what);
    }

    byte[] bytes(int size, String what) throws ProtocolException {
        byte[] bytes = binary(tag(what), what);
        if (bytes.length != size) {
            throw new ProtocolException(what + " has " + bytes.length + " bytes instead of " + size);
        }
        return bytes;
    }

    /** Pairs of a name and a scalar, as refusals carry them. */
    Map<String, Object> pairs(int countMax, String what) throws ProtocolException {
        int count = arraySize(what);
        if (count > countMax) {
            throw new ProtocolException(what + " has " + count + " pairs; " + countMax + " are allowed");
        }
        Map<String, Object> pairs = new LinkedHashMap<>();
        for (int i = 0; i < count; i++) {
            array(2, what);
            pairs.put(text(what), scalar(what));
        }
        return pairs;
    }

    private Object scalar(String what) throws ProtocolException {
        int tag = tag(what);
        if (tag == NIL) {
            return null;
        }
        if (tag == 0xc2 || tag == 0xc3) {
            return tag == 0xc3;
        }
        if ((tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) {
            return text(tag, what);
        }
        if (tag >= 0xc4 && tag <= 0xc6) {
            return binary(tag, what);
        }
        return number(tag, what);
    }

    /** Junk after a message is an error, not something to step over. */
    void end(String what) throws ProtocolException {
        if (in.hasRemaining()) {
            throw new ProtocolException(what + " is followed by " + in.remaining() + " bytes that do not belong to it");
        }
    }

    private long number(int tag, String what) throws ProtocolException {
        if (tag < 0x80) {
            return tag;
        }
        if (tag >= 0xe0) {
            return (byte) tag;
        }
        return switch (tag) {
            case 0xcc -> unsigned(1, what);
            case 0xcd -> unsigned(2, what);
            case 0xce -> unsigned(4, what);
            case 0xcf -> positive(unsigned(8, what), what);
            case 0xd0 -> (byte) unsigned(1, what);
            case 0xd1 -> (short) unsigned(2, what);
            case 0xd2 -> (int) unsigned(4, what);
            case 0xd3 -> unsigned(8, what);
            default -> throw unexpected(tag, "an integer", what);
        };
    }

    private String text(int tag, String what) throws ProtocolException {
        int size;
        if ((tag & 0xe0) == 0xa0) {
            size = tag & 0x1f;
        } else {
            size = switch (tag) {
                case 0xd9 -> (int) unsigned(1, what);
                case 0xda -> (int) unsigned(2, what);
                case 0xdb -> bounded(unsigned(4, what), what);
                default -> throw unexpected(tag, "text", what);
            };
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(take(size, what))).toString();
        } catch (CharacterCodingException e) {
            throw new ProtocolException(what + " is not UTF-8", e);
        }
    }

    private byte[] binary(int tag, String what) throws ProtocolException {
        return take(
                switch (tag) {
                    case 0xc4 -> (int) unsigned(1, what);
                    case 0xc5 -> (int) unsigned(2, what);
                    case 0xc6 -> bounded(unsigned(4, what), what);
                    default -> throw unexpected(tag, "bytes", what);
                },
                what);
    }

    private byte[] take(int size, String what) throws ProtocolException {
        if (size > in.remaining()) {
            throw truncated(what);
        }
        byte[] bytes = new byte[size];
        in.get(bytes);
        return bytes;
    }

    private int tag(String what) throws ProtocolException {
        if (!in.hasRemaining()) {
            throw truncated(what);
        }
        return in.get() & 0xff;
    }

    private long unsigned(int bytes, String what) throws ProtocolException {
        try {
            return switch (bytes) {
                case 1 -> in.get() & 0xffL;
                case 2 -> in.getShort() & 0xffffL;
                case 4 -> in.getInt() & 0xffffffffL;
                default -> in.getLong();
            };
        } catch (BufferUnderflowException e) {
            throw truncated(what);
        }
    }

    private int bounded(long size, String what) throws ProtocolException {
        if (size > in.remaining()) {
            throw truncated(what);
        }
        return (int) size;
    }

    private static long positive(long value, String what) throws ProtocolException {
        if (value < 0) {
            throw new ProtocolException(what + " is over 2^63-1");
        }
        return value;
    }

    private static ProtocolException truncated(String what) {
        return new ProtocolException(what + " ends too early");
    }

    private static ProtocolException unexpected(int tag, String wanted, String what) {
        return new ProtocolException(String.format("%s: expected %s, found msgpack tag 0x%02x", what, wanted, tag));
    }
}
