package io.sos.spark.gateway;

/** The types of frames, as PROTOCOL.md numbers them; answers are above 0xa0. */
enum FrameType {
    HELLO(0x21),
    OPEN(0x22),
    PUT(0x23),
    WRITE_OPEN(0x24),
    /** In both directions. */
    DATA(0x25),
    WRITE_COMMIT(0x26),
    WRITE_CANCEL(0x27),
    READ(0x28),
    STAT(0x29),
    LIST(0x2a),
    MKDIRS(0x2b),
    DELETE(0x2c),
    RENAME(0x2d),
    CLAIM(0x2e),
    MARK(0x2f),
    APPEND(0x36),
    WELCOME(0xa1),
    OPENED(0xa2),
    STATUS(0xa3),
    DONE(0xa4),
    PAGE(0xa5),
    READ_END(0xa6),
    WAITING(0xa7),
    ERROR(0xaa);

    private static final FrameType[] BY_CODE = new FrameType[256];

    static {
        for (FrameType type : values()) {
            BY_CODE[type.code] = type;
        }
    }

    private final int code;

    FrameType(int code) {
        this.code = code;
    }

    int code() {
        return code;
    }

    /** The type of a frame that was received. */
    static FrameType of(int code) throws ProtocolException {
        FrameType type = BY_CODE[code & 0xff];
        if (type == null) {
            throw new ProtocolException(
                    String.format("an answer of type 0x%02x: is this the port of a journal service?", code));
        }
        return type;
    }
}
