package io.sos.spark.connector.source;

/** Where an ingest volume keeps what, as connectors/ingest/FORMAT.md has it. */
final class IngestPlaces {
    static final String FORMAT_FILE = "ingest/format";
    static final String FORMAT_TEXT = "sos-ingest 1\n";
    static final String LOG = "ingest/log";
    static final String STREAMS = "ingest/streams";
    static final String READERS = "ingest/readers";
    private static final int SEQUENCE_DIGITS = 20;

    private IngestPlaces() {}

    static String logFile(long sequence) {
        return LOG + "/" + name(sequence);
    }

    /** Of the files that begin with this sequence number. */
    static String name(long sequence) {
        return String.format("%0" + SEQUENCE_DIGITS + "d", sequence);
    }

    /** The number that such a file is named after; -1: it is another kind of file. */
    static long sequenceOf(String path) {
        String name = path.substring(path.lastIndexOf('/') + 1);
        boolean isNumber = name.length() == SEQUENCE_DIGITS && name.chars().allMatch(c -> c >= '0' && c <= '9');
        try {
            return isNumber ? Long.parseLong(name) : -1;
        } catch (NumberFormatException above63Bits) {
            return -1;
        }
    }
}
