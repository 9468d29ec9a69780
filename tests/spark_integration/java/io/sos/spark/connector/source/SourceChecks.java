package io.sos.spark.connector.source;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;

import io.sos.spark.checks.Checks;
import io.sos.spark.gateway.Content;
import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.Peer;
import io.sos.spark.gateway.ServiceAddress;
import io.sos.spark.gateway.ServiceSettings;
import io.sos.spark.gateway.VolumeClient;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;

/**
 * How ingest volumes are read, byte by byte. Arguments: a service with the volumes named here, a file of frames as a listener
 * stores them (hex, then what they say), and the example of a block in FORMAT.md (hex).
 */
public final class SourceChecks {
    private static ServiceSettings settings;

    public static void main(String[] arguments) throws Exception {
        settings = new ServiceSettings(
                ServiceAddress.parseList(arguments[0]), null, false, null, false, 20_000, Peer.LISTENER);
        Checks checks = new Checks();
        checks.check("frames of the vectors", () -> vectors(Path.of(arguments[1])));
        checks.check("example of the format", () -> example(HexFormat.of().parseHex(arguments[2])));
        checks.check("over files, with blocks without rows and large frames", SourceChecks::overFiles);
        checks.check("names from the newest file of streams", SourceChecks::snapshots);
        checks.check("out of retention, ahead, no ingest volume", SourceChecks::missing);
        checks.check("damage is seen", SourceChecks::damage);
        checks.check("a log that is put back or written again while it is read", SourceChecks::writtenAgain);
        checks.check("a file of streams that is replaced while it is read", SourceChecks::otherStreams);
        checks.check("a volume is told of its reader before the checkpoint is", SourceChecks::registered);
        checks.check("the name of a reader", SourceChecks::readerName);
        checks.check("offsets", SourceChecks::offsets);
        checks.check("options", SourceChecks::options);
        checks.end();
    }

    private static void vectors(Path file) throws Exception {
        List<String[]> frames = new ArrayList<>();
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        int rows = 0;
        for (String line : Files.readAllLines(file)) {
            String[] parts = line.split("\t", -1);
            frames.add(parts);
            all.write(HexFormat.of().parseHex(parts[0]));
            rows += parts[1].equals("MESSAGE") && !parts[6].isEmpty() ? 1 : 0;
        }
        is(frames.size() >= 4 && rows >= 1);
        put("vectors", "ingest/log/" + IngestPlaces.name(0), block(0, rows, all.toByteArray()));
        LogCursor log = new LogCursor(client("vectors"), new LogPosition(0, 0), null);
        is(log.nextBlock());
        for (String[] wanted : frames) {
            is(log.nextFrame());
            equal(wanted[2], Long.toUnsignedString(log.streamId()));
            equal(wanted[1].equals("NOTIFY"), log.isIntroduction());
            if (log.isIntroduction()) {
                equal(wanted[3], new String(log.streamName(), StandardCharsets.UTF_8));
            } else {
                equal(wanted[3], Long.toUnsignedString(log.messageId()));
                equal(wanted[4], Long.toString(log.eventTime()));
                HexFormat hex = HexFormat.of();
                equal(wanted[5], hex.formatHex(log.bytes(), log.keyStart(), log.valueStart()));
                equal(wanted[6], hex.formatHex(log.bytes(), log.valueStart(), log.frameEnd()));
                equal(!wanted[6].isEmpty(), log.isRow());
            }
        }
        is(!log.nextFrame());
    }

    private static void example(byte[] block) throws Exception {
        begin("example");
        put("example", "ingest/log/" + IngestPlaces.name(0), block);
        VolumeLog log = log("example");
        equal(1L, log.end());
        equal(List.of("0 1:s 10 hello 1790000001000000"), read(log.range(0, 1, 0, 1)));
    }

    private static void overFiles() throws Exception {
        begin("files");
        byte[] large = new byte[900_000];
        put("files", "ingest/log/" + IngestPlaces.name(0), join(
                block(0, 0, notify(1, "one")),
                block(0, 2, message(1, 1, "a"), message(1, 2, ""), notify(2, "two"), message(2, 1, "b")),
                block(2, 1, message(2, 2, large))));
        put("files", "ingest/log/" + IngestPlaces.name(3), join(
                block(3, 0, message(1, 3, "")), block(3, 2, message(1, 4, "c"), message(2, 3, "d"))));
        VolumeLog log = log("files");
        equal(5L, log.end());
        equal(0L, log.oldest());
        List<String> all = read(log.range(0, 5, 0, 1));
        equal(5, all.size());
        for (long first = 0; first < 5; first++) {
            for (long after = first + 1; after <= 5; after++) {
                equal(all.subList((int) first, (int) after), read(log.range(first, after, 0, 1)));
            }
        }
        List<String> ones = read(log.range(0, 5, 0, 2));
        ones.addAll(read(log.range(0, 5, 1, 2)));
        equal(all.stream().sorted().toList(), ones.stream().sorted().toList());
        is(log.bytesOf(2, 3) > large.length);
        equal(2L, log.endWithin(0, 1000));
        equal(3L, log.endWithin(2, 1));
        put("files", "ingest/log/" + IngestPlaces.name(5), block(5, 1, message(1, 5, "e")));
        log.refresh();
        equal(6L, log.end());
    }

    private static void snapshots() throws Exception {
        begin("named");
        put("named", "ingest/streams/" + IngestPlaces.name(100), streams(7, "seven"));
        put("named", "ingest/log/" + IngestPlaces.name(100), join(
                block(100, 1, message(7, 1, "x")),
                block(101, 1, notify(8, "eight"), message(8, 1, "y")),
                block(102, 2, message(8, 2, "z"), message(7, 2, "w"))));
        VolumeLog log = log("named");
        equal(100L, log.oldest());
        equal(List.of("102 8:eight 2 z 5000", "103 7:seven 2 w 5000"), read(log.range(102, 104, 0, 1)));
    }

    private static void missing() throws Exception {
        VolumeLog log = log("named");
        String gone = thrown(IOException.class, () -> log.check(50, 101)).getMessage();
        is(gone.contains("message 50 of volume named is out of retention: the oldest that is there is 100"));
        is(gone.contains("startingSequence=100"));
        is(thrown(IOException.class, () -> log.check(100, 1000)).getMessage().contains("only those before 104"));
        MessageRange range = log.range(100, 104, 0, 1);
        client("named").delete("ingest/log/" + IngestPlaces.name(100), false, null);
        put("named", "ingest/log/" + IngestPlaces.name(104), block(104, 1, notify(7, "seven"), message(7, 3, "v")));
        is(thrown(IOException.class, () -> read(range)).getMessage().contains("the oldest that is there is 104"));
        is(thrown(IOException.class, () -> log("empty")).getMessage().contains("volume empty is not an ingest volume"));
    }

    private static void damage() throws Exception {
        begin("damaged");
        String path = "ingest/log/" + IngestPlaces.name(0);
        byte[] right = block(0, 1, notify(1, "one"), message(1, 1, "a"));
        byte[] wrong = right.clone();
        wrong[0] = 'x';
        put("damaged", path, wrong);
        is(thrown(IOException.class, () -> log("damaged")).getMessage().contains("no block of messages begins there"));
        wrong = right.clone();
        wrong[4] = 2;
        put("damaged", path, wrong);
        is(thrown(IOException.class, () -> log("damaged")).getMessage().contains("blocks of version 2"));
        put("damaged", path, block(0, 2, notify(1, "one"), message(1, 1, "a")));
        MessageRange range = log("damaged").range(0, 2, 0, 1);
        is(thrown(IOException.class, () -> read(range)).getMessage().contains("has 1 rows instead of 2"));
        put("damaged", path, block(0, 1, message(9, 1, "a")));
        MessageRange nameless = log("damaged").range(0, 1, 0, 1);
        is(thrown(IOException.class, () -> read(nameless)).getMessage().contains("introduces its stream 9"));
        for (int at = LogBlock.HEAD_BYTES; at < right.length; at++) {
            wrong = right.clone();
            wrong[at] ^= (byte) 0x80;
            put("damaged", path, wrong);
            MessageRange any = log("damaged").range(0, 1, 0, 1);
            try {
                read(any); // other ids, names or bytes: the volume has checksums against that
            } catch (IOException said) {
                is(said.getMessage() != null);
            }
        }
    }

    private static void writtenAgain() throws Exception {
        begin("again");
        String path = "ingest/log/" + IngestPlaces.name(0);
        put("again", path, block(0, 0, notify(1, "one"), notify(2, "two"), notify(3, "three")));
        VolumeLog log = log("again");
        equal(0L, log.end());
        byte[] shorter = block(0, 1, notify(1, "one"), message(1, 1, "a"));
        put("again", path, shorter);
        equal(0L, log.firstReceivedFrom(0));
        log.refresh();
        equal(1L, log.end());
        put("again", path, join(shorter, block(1, 1, message(1, 2, "b"))));
        log.refresh();
        MessageRange range = log.range(0, 2, 0, 1);
        put("again", path, shorter);
        is(thrown(IOException.class, () -> read(range)).getMessage().contains("was put back while it was read"));
        put("again", path, block(0, 0, notify(1, "one")));
        VolumeLog gone = log("again");
        client("again").delete(path, false, null);
        is(thrown(IOException.class, () -> gone.firstReceivedFrom(0)).getMessage().contains("is out of retention"));
    }

    private static void otherStreams() throws Exception {
        put("again", "ingest/streams/" + IngestPlaces.name(10), streams(7, "seven"));
        List<FileEntry> listed = client("again").list(IngestPlaces.STREAMS);
        put("again", "ingest/streams/" + IngestPlaces.name(20), streams(8, "eight"));
        client("again").delete("ingest/streams/" + IngestPlaces.name(10), false, null);
        equal(20L, StreamNames.of(client("again"), "again", settings, 0).learnNewest(listed));
        put("again", "ingest/streams/" + IngestPlaces.name(20), new byte[17]);
        List<FileEntry> damaged = client("again").list(IngestPlaces.STREAMS);
        is(thrown(IOException.class, () -> StreamNames.of(client("again"), "again", settings, 1).learnNewest(damaged))
                .getMessage().contains("is not a file of streams"));
    }

    private static void registered() throws Exception {
        begin("old");
        begin("new");
        put("old", "ingest/log/" + IngestPlaces.name(5), block(5, 1, notify(1, "one"), message(1, 1, "a")));
        put("new", "ingest/log/" + IngestPlaces.name(7), block(7, 1, notify(1, "one"), message(1, 1, "a")));
        Path folder = Files.createTempDirectory("checkpoint");
        Path notAFolder = Files.writeString(folder.resolve("file"), "");
        thrown(UncheckedIOException.class, () -> stream(notAFolder.resolve("sources/0"), "old").initialOffset());
        equal("sos-ingest-reader 1 5\n", reader("old"));
        stream(folder.resolve("sources/0"), "old", "new")
                .latestOffset(new SequenceOffset(Map.of("old", 6L)), ReadLimit.allAvailable());
        equal("sos-ingest-reader 1 6\n", reader("old"));
        equal("sos-ingest-reader 1 7\n", reader("new"));
    }

    private static IngestStream stream(Path checkpoint, String... volumes) {
        Map<String, VolumeLog> logs = new TreeMap<>();
        Map<String, ReaderMark> marks = new TreeMap<>();
        for (String volume : volumes) {
            logs.put(volume, new VolumeLog(volume, settings));
            marks.put(volume, new ReaderMark(client(volume), client(volume), "reader", ""));
        }
        return new IngestStream(
                logs,
                marks,
                new StartingPoint(Map.of(), false),
                new FirstOffset(checkpoint.toUri().toString(), new Configuration()),
                new BatchLimit(Long.MAX_VALUE, Long.MAX_VALUE),
                new Partitioning(false, 1, 1),
                new MessageReaderFactory(null),
                false,
                null);
    }

    private static String reader(String volume) throws IOException {
        return new String(client(volume).read("ingest/readers/reader", 0, 100, null).bytes(), StandardCharsets.UTF_8);
    }

    private static void readerName() {
        // echo -n sos://payments/q1/sources/0 | sha256sum
        equal("5f1c-0-48b7d68a", IngestScan.readerName("5f1c", "sos://payments/q1/sources/0"));
        String fork = IngestScan.readerName("5f1c", "sos://payments/q1-trial/sources/0");
        is(fork.matches("5f1c-0-[0-9a-f]{8}") && !fork.equals(IngestScan.readerName("5f1c", "sos://payments/q1/sources/0")));
        equal(fork, IngestScan.readerName("5f1c", "sos://payments/q1-trial//sources/0/"));
    }

    private static void offsets() {
        SequenceOffset offset = new SequenceOffset(Map.of("b", 2L, "a", Long.MAX_VALUE));
        equal("{\"a\":9223372036854775807,\"b\":2}", offset.json());
        equal(offset, SequenceOffset.parse(offset.json()));
        equal(offset, SequenceOffset.parse(" { \"b\" : 2 , \"a\":9223372036854775807 } "));
        equal(Map.of(), SequenceOffset.parse("{}").next());
        for (String wrong : List.of("", "5", "{", "{\"a\"}", "{\"a\":-1}", "{\"a\":1,}", "{\"a\":9223372036854775808}")) {
            thrown(IllegalArgumentException.class, () -> SequenceOffset.parse(wrong));
        }
    }

    private static void options() {
        equal(64L << 20, option("maxBytesPerBatch", "64m").maxBytes());
        equal(1000L, option("MAXBYTESPERBATCH", "1000").maxBytes());
        equal(Long.MAX_VALUE, option("volume", "a").maxBytes());
        equal(List.of("a", "b"), option("volume", "a, b").volumes(null));
        equal(List.of("c"), option("service", "x:1").volumes("c"));
        equal(Map.of("a", 5L), option("startingOffsets", "{\"a\":5}").startingSequences(List.of("a")));
        equal(Map.of("a", 7L), option("startingSequence", "7").startingSequences(List.of("a")));
        equal(0L, option("fromTime", "1970-01-01T01:00:00+01:00").fromTime(java.time.ZoneOffset.UTC));
        equal(3_600_000L, option("toTime", "1970-01-01 01:00:00").toTime(java.time.ZoneOffset.UTC));
        thrown(IllegalArgumentException.class, () -> option("volumes", "a"));
        thrown(IllegalArgumentException.class, () -> option("volume", "a,a").volumes(null));
        thrown(IllegalArgumentException.class, () -> option("service", "a:1").volumes(null));
        thrown(IllegalArgumentException.class, () -> option("maxRowsPerBatch", "0").maxRows());
        thrown(IllegalArgumentException.class, () -> option("maxBytesPerBatch", "99999999t").maxBytes());
        thrown(IllegalArgumentException.class, () -> option("splitBy", "row").splitsByStream());
        thrown(IllegalArgumentException.class, () -> option("fromTime", "yesterday").fromTime(java.time.ZoneOffset.UTC));
        thrown(IllegalArgumentException.class, () -> option("startingSequence", "7").startingSequences(List.of("a", "b")));
    }

    private static SourceOptions option(String name, String value) {
        return new SourceOptions(Map.of(name, value));
    }

    private static VolumeClient client(String volume) {
        return VolumeClient.of(volume, settings);
    }

    private static void begin(String volume) throws IOException {
        put(volume, IngestPlaces.FORMAT_FILE, IngestPlaces.FORMAT_TEXT.getBytes(StandardCharsets.US_ASCII));
    }

    private static void put(String volume, String path, byte[] bytes) throws IOException {
        client(volume).write(path, Content.of(bytes), true, null);
    }

    private static VolumeLog log(String volume) throws IOException {
        VolumeLog log = new VolumeLog(volume, settings);
        log.refresh();
        return log;
    }

    /** SEQUENCE STREAM:NAME ID VALUE RECEIVED, values by their size if they are large. */
    private static List<String> read(MessageRange range) throws IOException {
        List<String> rows = new ArrayList<>();
        try (MessageReader reader = new MessageReader(range)) {
            while (reader.next()) {
                MessageRow row = (MessageRow) reader.get().copy();
                byte[] value = row.getBinary(5);
                String shown = value.length > 100 ? value.length + " bytes" : new String(value, StandardCharsets.UTF_8);
                rows.add(row.getLong(6) + " " + row.getLong(0) + ":" + row.getUTF8String(1) + " " + row.getLong(2) + " " + shown
                        + " " + row.getLong(7));
            }
        }
        return rows;
    }

    private static byte[] block(long first, int rows, byte[]... frames) throws IOException {
        byte[] all = join(frames);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeBytes("SOSm");
        out.writeInt(1 << 24);
        out.writeInt(all.length);
        out.writeInt(rows);
        out.writeLong(first);
        out.writeLong(5);
        out.write(all);
        return bytes.toByteArray();
    }

    private static byte[] streams(long stream, String name) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeBytes("SOSn");
        out.writeInt(1 << 24);
        out.writeLong(1);
        out.writeLong(stream);
        out.writeLong(-1);
        out.writeUTF(name);
        return bytes.toByteArray();
    }

    private static byte[] notify(long stream, String name) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeInt(1 + 8 + 2 + name.length() + 8);
        out.writeByte(3);
        out.writeLong(stream);
        out.writeUTF(name);
        out.writeLong(-1);
        return bytes.toByteArray();
    }

    private static byte[] message(long stream, long id, String value) throws IOException {
        return message(stream, id, value.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] message(long stream, long id, byte[] value) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeInt(1 + 26 + value.length);
        out.writeByte(5);
        out.writeLong(stream);
        out.writeLong(id);
        out.writeLong(0);
        out.writeShort(0);
        out.write(value);
        return bytes.toByteArray();
    }

    private static byte[] join(byte[]... parts) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            bytes.write(part);
        }
        return bytes.toByteArray();
    }
}
