package io.sos.spark.gateway;

/** The file protocol's limits, as journal/gateway/wire/limits.py has them. */
final class Limits {
    /** One request at a time on a connection; the only one that reads and streams files. */
    static final int VERSION = 1;
    /** Many requests of one frame at a time, each with a tag. */
    static final int SHARED_VERSION = 2;
    /** Small requests do not wait behind larger ones: these have connections of their own. */
    static final int SHARED_PUT_BYTES_MAX = 128 * 1024;
    /** The memory that the other side can make this one take for a frame. */
    static final int FRAME_BYTES_MAX = 2 * 1024 * 1024;
    /** File bytes in one PUT or DATA, and what one READ asks for. */
    static final int PIECE_BYTES_MAX = 1024 * 1024;

    static final int LIST_ENTRIES_MAX = 1000;
    /** Of one directory, over all pages: a listing is kept in memory, and a service must not fill it. */
    static final int LIST_ENTRIES_IN_ALL_MAX = 1_000_000;
    static final long LIST_CHARACTERS_IN_ALL_MAX = 64L * 1024 * 1024;
    /** Servers let nobody claim an epoch above the seconds since 1970 and 2^20; as much again, as clocks differ. */
    static final long EPOCHS_AHEAD_MAX = 2L << 20;

    static final int ERROR_FIELDS_MAX = 16;
    static final int INSTANCE_BYTES = 16;
    /** Ids that one JVM lends to its changes: a service keeps 16 answers of each. */
    static final int CLIENT_IDS_MAX = 1024;
    static final int TOKEN_BYTES = 32;
    /** The service says every 0.5 s that it still works on a request; after this long without a sign the connection is given up. */
    static final long SILENCE_MILLIS_MAX = 2_000;
    /** The service closes a connection that asked for nothing for 600 s; ours go well before. */
    static final long IDLE_MILLIS_MAX = 60_000;

    private Limits() {}
}
