package io.sos.spark.gateway;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/**
 * Writes the subset of msgpack that the file protocol uses: nil, booleans, integers of at most 63 bits, text, bytes,
 * arrays. Every value goes out in its shortest form, so equal messages are equal bytes. Nothing else belongs here.
 */
final class MsgpackWriter {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream(128);

    byte[] toByteArray() {
        return out.toByteArray();
    }

    MsgpackWriter nil() {
        out.write(0xc0);
        return this;
    }

    MsgpackWriter bool(boolean value) {
        out.write(value ? 0xc3 : 0xc2);
        return this;
    }

    MsgpackWriter number(long value) {
        if (value >= 0) {
            nonNegative(value);
        } else {
            negative(value);
        }
        return this;
    }

    MsgpackWriter text(String value) {
        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
        if (bytes.length < 32) {
            out.write(0xa0 | bytes.length);
        } else {
            length(bytes.length, 0xd9, 0xda, 0xdb);
        }
        out.writeBytes(bytes);
        return this;
    }

    MsgpackWriter bytes(byte[] value) {
        length(value.length, 0xc4, 0xc5, 0xc6);
        out.writeBytes(value);
        return this;
    }

    MsgpackWriter array(int size) {
        if (size < 16) {
            out.write(0x90 | size);
        } else if (size <= 0xffff) {
            tagged(0xdc, size, 2);
        } else {
            tagged(0xdd, size, 4);
        }
        return this;
    }

    private void nonNegative(long value) {
        if (value < 0x80) {
            out.write((int) value);
        } else if (value <= 0xff) {
            tagged(0xcc, value, 1);
        } else if (value <= 0xffff) {
            tagged(0xcd, value, 2);
        } else if (value <= 0xffffffffL) {
            tagged(0xce, value, 4);
        } else {
            tagged(0xcf, value, 8);
        }
    }

    private void negative(long value) {
        if (value >= -32) {
            out.write((int) value);
        } else if (value >= Byte.MIN_VALUE) {
            tagged(0xd0, value, 1);
        } else if (value >= Short.MIN_VALUE) {
            tagged(0xd1, value, 2);
        } else if (value >= Integer.MIN_VALUE) {
            tagged(0xd2, value, 4);
        } else {
            tagged(0xd3, value, 8);
        }
    }

    private void length(int size, int tag8, int tag16, int tag32) {
        if (size <= 0xff) {
            tagged(tag8, size, 1);
        } else if (size <= 0xffff) {
            tagged(tag16, size, 2);
        } else {
            tagged(tag32, size, 4);
        }
    }

    private void tagged(int tag, long value, int bytes) {
        out.write(tag);
        for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
            out.write((int) (value >>> shift));
        }
    }
}
