package io.sos.spark.gateway;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The answers of the file protocol as values, and how they are read. Whatever the bytes are: an answer or a ProtocolException. */
sealed interface Answer {
    /** The service's epoch for the volume; 0 where an answer has none. */
    default long epoch() {
        return 0;
    }

    record Welcome(long version, byte[] service, long frameBytesMax, long pieceBytesMax, long timeMillis)
            implements Answer {}

    record Opened(long epoch, String volume) implements Answer {}

    record Status(long epoch, FileEntry entry) implements Answer {}

    /** File bytes, their checksum verified, that belong at {@code offset}. */
    record Data(long offset, ByteBuffer payload) implements Answer {}

    record Done(long epoch, boolean applied) implements Answer {}

    record Page(long epoch, List<FileEntry> entries, boolean more) implements Answer {}

    record ReadEnd(long epoch, long nextOffset) implements Answer {}

    /** Not an answer: the service is alive and still works on the request. */
    record Waiting(long epoch, long waitedMillis) implements Answer {}

    record Refusal(long epoch, int code, String message, Map<String, Object> fields) implements Answer {}

    static Answer decode(FrameType type, ByteBuffer body) throws ProtocolException {
        if (type == FrameType.DATA) {
            return data(body);
        }
        MsgpackReader in = new MsgpackReader(body);
        Answer answer =
                switch (type) {
                    case WELCOME -> welcome(in);
                    case OPENED -> opened(in);
                    case STATUS -> status(in);
                    case DONE -> done(in);
                    case PAGE -> page(in);
                    case READ_END -> readEnd(in);
                    case WAITING -> waiting(in);
                    case ERROR -> refusal(in);
                    default -> throw new ProtocolException("a " + type + " frame where an answer belongs");
                };
        in.end("an answer");
        return answer;
    }

    private static Data data(ByteBuffer body) throws ProtocolException {
        if (body.remaining() <= Frames.DATA_HEAD_BYTES) {
            throw new ProtocolException("a DATA frame without data");
        }
        long offset = body.getLong();
        long crc = body.getInt() & 0xffffffffL;
        if (offset < 0 || body.remaining() > Limits.PIECE_BYTES_MAX) {
            throw new ProtocolException("a DATA frame beyond the limits");
        }
        if (Frames.crc32c(body.duplicate()) != crc) {
            throw new ProtocolException("file bytes do not match their CRC: they were changed on the way");
        }
        return new Data(offset, body);
    }

    private static Welcome welcome(MsgpackReader in) throws ProtocolException {
        in.array(5, "WELCOME");
        return new Welcome(
                in.number("WELCOME's version"),
                in.bytes(Limits.INSTANCE_BYTES, "WELCOME's service"),
                in.number("WELCOME's frame limit"),
                in.number("WELCOME's piece limit"),
                in.number("WELCOME's time"));
    }

    private static Opened opened(MsgpackReader in) throws ProtocolException {
        in.array(2, "OPENED");
        return new Opened(in.number("OPENED's epoch"), in.text("OPENED's volume"));
    }

    private static Status status(MsgpackReader in) throws ProtocolException {
        in.array(2, "STATUS");
        return new Status(in.number("STATUS's epoch"), FileEntry.read(in));
    }

    private static Done done(MsgpackReader in) throws ProtocolException {
        in.array(2, "DONE");
        return new Done(in.number("DONE's epoch"), in.bool("DONE's flag"));
    }

    private static Page page(MsgpackReader in) throws ProtocolException {
        in.array(3, "PAGE");
        long epoch = in.number("PAGE's epoch");
        int count = in.arraySize("PAGE's entries");
        if (count > Limits.LIST_ENTRIES_MAX) {
            throw new ProtocolException("a PAGE of " + count + " entries");
        }
        List<FileEntry> entries = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            entries.add(FileEntry.read(in));
        }
        return new Page(epoch, entries, in.bool("PAGE's flag"));
    }

    private static ReadEnd readEnd(MsgpackReader in) throws ProtocolException {
        in.array(2, "READ_END");
        return new ReadEnd(in.number("READ_END's epoch"), in.number("READ_END's offset"));
    }

    private static Waiting waiting(MsgpackReader in) throws ProtocolException {
        in.array(2, "WAITING");
        return new Waiting(in.number("WAITING's epoch"), in.number("WAITING's time"));
    }

    private static Refusal refusal(MsgpackReader in) throws ProtocolException {
        in.array(4, "ERROR");
        return new Refusal(
                in.number("ERROR's epoch"),
                (int) Math.min(in.number("ERROR's code"), Integer.MAX_VALUE),
                in.text("ERROR's message"),
                in.pairs(Limits.ERROR_FIELDS_MAX, "ERROR's fields"));
    }
}
