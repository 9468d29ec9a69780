package io.sos.spark.gateway;

/** The requests of the file protocol as values. {@link Frames} makes bytes of them. */
sealed interface Request {
    FrameType type();

    /** The msgpack part of the frame's body. */
    void writeTo(MsgpackWriter out);

    record Hello(int version, byte[] token, String client, byte[] instance) implements Request {
        Hello with(int other) {
            return new Hello(other, token, client, instance);
        }

        public FrameType type() {
            return FrameType.HELLO;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(2).text(client).bytes(instance);
        }
    }

    record Open(String volume, long epochSeen) implements Request {
        public FrameType type() {
            return FrameType.OPEN;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(2).text(volume).number(epochSeen);
        }
    }

    record Put(String path, boolean overwrite, OperationStamp stamp, byte[] payload) implements Request {
        public FrameType type() {
            return FrameType.PUT;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(5).text(path).bool(overwrite).number(Frames.crc32c(payload, payload.length));
            stamp.writeTo(out);
            out.nil(); // the modification time is the journal's own
        }
    }

    /** Adds the first {@code length} bytes of {@code payload} to the file that has this size and time. */
    record Append(String path, long size, long modifiedMillis, OperationStamp stamp, byte[] payload, int length)
            implements Request {
        public FrameType type() {
            return FrameType.APPEND;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(5).text(path).number(size).number(modifiedMillis).number(Frames.crc32c(payload, length));
            stamp.writeTo(out);
        }
    }

    record WriteOpen(String path, boolean overwrite, OperationStamp stamp) implements Request {
        public FrameType type() {
            return FrameType.WRITE_OPEN;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(4).text(path).bool(overwrite);
            stamp.writeTo(out);
            out.nil(); // the modification time is the journal's own
        }
    }

    /** The first {@code length} bytes of {@code payload}, which belong at {@code offset} of the file. */
    record Data(long offset, byte[] payload, int length) implements Request {
        public FrameType type() {
            return FrameType.DATA;
        }

        public void writeTo(MsgpackWriter out) {}
    }

    record WriteCommit(long size) implements Request {
        public FrameType type() {
            return FrameType.WRITE_COMMIT;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(1).number(size);
        }
    }

    record WriteCancel() implements Request {
        public FrameType type() {
            return FrameType.WRITE_CANCEL;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(0);
        }
    }

    /** {@code modifiedMillis} not null: refused unless the file is still the one of that time. */
    record Read(String path, long offset, long length, Long modifiedMillis, long epochSeen) implements Request {
        public FrameType type() {
            return FrameType.READ;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(5).text(path).number(offset).number(length);
            if (modifiedMillis == null) {
                out.nil();
            } else {
                out.number(modifiedMillis);
            }
            out.number(epochSeen);
        }
    }

    record Stat(String path, long epochSeen) implements Request {
        public FrameType type() {
            return FrameType.STAT;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(2).text(path).number(epochSeen);
        }
    }

    record List(String path, String after, int limit, long epochSeen) implements Request {
        public FrameType type() {
            return FrameType.LIST;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(4).text(path).text(after).number(limit).number(epochSeen);
        }
    }

    record Mkdirs(String path, OperationStamp stamp) implements Request {
        public FrameType type() {
            return FrameType.MKDIRS;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(2).text(path);
            stamp.writeTo(out);
        }
    }

    record Delete(String path, boolean recursive, OperationStamp stamp) implements Request {
        public FrameType type() {
            return FrameType.DELETE;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(3).text(path).bool(recursive);
            stamp.writeTo(out);
        }
    }

    record Rename(String source, String target, boolean overwrite, OperationStamp stamp) implements Request {
        public FrameType type() {
            return FrameType.RENAME;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(4).text(source).text(target).bool(overwrite);
            stamp.writeTo(out);
        }
    }

    record Claim(String path, OperationStamp stamp) implements Request {
        public FrameType type() {
            return FrameType.CLAIM;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(2).text(path);
            stamp.writeTo(out);
        }
    }

    /** Names this moment in the log. */
    record Mark(java.util.Map<String, String> values, OperationStamp stamp) implements Request {
        public FrameType type() {
            return FrameType.MARK;
        }

        public void writeTo(MsgpackWriter out) {
            out.array(2).array(values.size());
            values.forEach((name, value) -> out.array(2).text(name).text(value));
            stamp.writeTo(out);
        }
    }
}
