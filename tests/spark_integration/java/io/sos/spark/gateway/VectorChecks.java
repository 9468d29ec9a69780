package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.thrown;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sos.spark.checks.Checks;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The Java codec against the vectors that the Python one is tested with, too. Arguments: the vector files. */
public final class VectorChecks {
    /** The shim neither sends nor expects these. */
    private static final Set<String> NOT_SPOKEN = Set.of("Ping", "Quit", "Pong", "Bye", "Pin",
            "Describe", "DescriptionAnswer", "Claims", "ClaimPageAnswer", "Release");

    public static void main(String[] arguments) throws Exception {
        Checks checks = new Checks();
        ObjectMapper json = new ObjectMapper();
        JsonNode messages = json.readTree(new File(arguments[0]));
        for (JsonNode vector : messages.get("requests")) {
            if (!isSkipped(vector)) {
                checks.check("request " + vector.get("name").asText(), () -> encodes(vector));
            }
        }
        for (JsonNode vector : messages.get("answers")) {
            if (!isSkipped(vector)) {
                checks.check("answer " + vector.get("name").asText(), () -> decodes(vector));
                checks.check("answer " + vector.get("name").asText() + ", cut short anywhere", () -> cutShort(vector));
                checks.check("answer " + vector.get("name").asText() + ", with junk after it", () -> withJunk(vector));
            }
        }
        for (JsonNode vector : json.readTree(new File(arguments[1])).get("answers")) {
            checks.check("invalid " + vector.get("name").asText(),
                    () -> thrown(ProtocolException.class, () -> read(HexFormat.of().parseHex(vector.get("frame").asText()))));
        }
        JsonNode tagged = json.readTree(new File(arguments[2]));
        for (JsonNode vector : tagged.get("requests")) {
            if (!isSkipped(vector)) {
                checks.check("tagged request " + vector.get("name").asText(), () -> encodesTagged(vector));
            }
        }
        for (JsonNode vector : tagged.get("answers")) {
            if (!isSkipped(vector)) {
                checks.check("tagged answer " + vector.get("name").asText(), () -> decodesTagged(vector));
            }
        }
        checks.check("a frame needs a tag on a shared connection",
                () -> thrown(ProtocolException.class, () -> readTagged(new byte[] {0, 0, 0, 4, (byte) 0xa9, 0, 0, 0})));
        shards(checks, json.readTree(new File(arguments[3])));
        checks.check("any length prefix beyond the limit is refused before memory is taken for it",
                () -> thrown(ProtocolException.class, () -> read(new byte[] {0x7f, 0, 0, 0, 1})));
        checks.end();
    }

    /** Which shard has what: every client must say the same. */
    private static void shards(Checks checks, JsonNode vectors) {
        for (JsonNode vector : vectors.get("paths")) {
            String path = vector.get("path").asText();
            checks.check("the shard of " + path.strip(), () -> {
                vector.get("shards").fields().forEachRemaining(each -> equal(
                        each.getValue().asInt(), new ShardMap("v", Integer.parseInt(each.getKey())).shardOf(path)));
                equal(vector.get("in_partition").asBoolean(), ShardMap.isInPartition(path));
                equal(vector.get("partitions_below").asBoolean(), ShardMap.hasPartitionsOfAll(path));
                if (ShardMap.isInPartition(path)) {
                    equal(vector.get("operator").asText(), ShardMap.operatorDirectory(path));
                }
            });
        }
        for (JsonNode vector : vectors.get("moves")) {
            String source = vector.get("source").asText();
            String target = vector.get("target").asText();
            checks.check("whether " + source + " keeps its shard as " + target, () -> {
                equal(vector.get("of_2").asBoolean(), new ShardMap("v", 2).movesWithinShards(source, target));
                equal(vector.get("of_3").asBoolean(), new ShardMap("v", 3).movesWithinShards(source, target));
            });
        }
        for (JsonNode vector : vectors.get("names")) {
            checks.check("the name of " + vector.get("name").asText(), () -> equal(vector.get("name").asText(),
                    new ShardMap(vector.get("volume").asText(), vector.get("count").asInt()).name(vector.get("index").asInt())));
        }
        for (JsonNode vector : vectors.get("marks")) {
            List<String> paths = new ArrayList<>();
            vector.get("paths").forEach(each -> paths.add(each.asText()));
            Map<String, String> values = new LinkedHashMap<>();
            vector.get("values").fields().forEachRemaining(each -> values.put(each.getKey(), each.getValue().asText()));
            checks.check("the mark of a change of " + paths.size() + " paths, " + values.size() + " values",
                    () -> equal(values, ShardMap.markOfChange(vector.get("token").asText(), paths)));
        }
    }

    private static boolean isSkipped(JsonNode vector) {
        if (vector.get("message").asText().equals("Mark")) {
            for (JsonNode pair : vector.get("fields").get("values")) {
                if (!pair.get(1).isTextual()) {
                    return true;
                }
            }
        }
        JsonNode time = vector.get("fields").get("modified_ms");
        boolean asksForTime = Set.of("Read", "Append").contains(vector.get("message").asText());
        boolean keepsTime = !asksForTime && time != null && !time.isNull();
        boolean readsToTheEnd = vector.get("message").asText().equals("Read") && vector.get("fields").get("length").isNull();
        return keepsTime || readsToTheEnd || NOT_SPOKEN.contains(vector.get("message").asText());
    }

    private static void encodes(JsonNode vector) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Frames.write(request(vector.get("message").asText(), vector.get("fields")), new DataOutputStream(out));
        equal(vector.get("frame").asText(), HexFormat.of().formatHex(out.toByteArray()));
    }

    private static void encodesTagged(JsonNode vector) throws IOException {
        Request request = request(vector.get("message").asText(), vector.get("fields"));
        int tag = (int) vector.get("tag").asLong();
        equal(vector.get("frame").asText(), HexFormat.of().formatHex(Frames.of(request, tag)));
        byte[] other = Frames.of(request, Frames.OF_THE_CONNECTION);
        Frames.tag(other, tag);
        equal(vector.get("frame").asText(), HexFormat.of().formatHex(other));
    }

    private static void decodesTagged(JsonNode vector) throws IOException {
        Frames.Tagged tagged = readTagged(HexFormat.of().parseHex(vector.get("frame").asText()));
        equal((int) vector.get("tag").asLong(), tagged.tag());
        equal(expected(vector.get("message").asText(), vector.get("fields")), comparable(tagged.answer()));
    }

    private static Frames.Tagged readTagged(byte[] frame) throws IOException {
        return Frames.readTagged(new DataInputStream(new ByteArrayInputStream(frame)));
    }

    private static Request request(String message, JsonNode fields) {
        return switch (message) {
            case "Hello" -> new Request.Hello((int) fields.get("version").asLong(), bytes(fields.get("token")), text(fields, "client"), bytes(fields.get("instance")));
            case "Open" -> new Request.Open(text(fields, "volume"), number(fields, "epoch_seen"));
            case "Put" -> new Request.Put(text(fields, "path"), flag(fields, "overwrite"), stamp(fields), bytes(fields.get("payload")));
            case "Append" -> {
                byte[] payload = bytes(fields.get("payload"));
                byte[] buffer = java.util.Arrays.copyOf(payload, payload.length + 3);
                yield new Request.Append(
                        text(fields, "path"), number(fields, "size"), number(fields, "modified_ms"), stamp(fields),
                        buffer, payload.length);
            }
            case "WriteOpen" -> new Request.WriteOpen(text(fields, "path"), flag(fields, "overwrite"), stamp(fields));
            case "Data" -> {
                byte[] payload = bytes(fields.get("payload"));
                byte[] buffer = new byte[payload.length + 3];
                System.arraycopy(payload, 0, buffer, 0, payload.length);
                yield new Request.Data(number(fields, "offset"), buffer, payload.length);
            }
            case "WriteCommit" -> new Request.WriteCommit(number(fields, "size"));
            case "WriteCancel" -> new Request.WriteCancel();
            case "Read" -> new Request.Read(
                    text(fields, "path"), number(fields, "offset"), number(fields, "length"),
                    fields.get("modified_ms").isNull() ? null : number(fields, "modified_ms"), number(fields, "epoch_seen"));
            case "Stat" -> new Request.Stat(text(fields, "path"), number(fields, "epoch_seen"));
            case "List" -> new Request.List(
                    text(fields, "path"), text(fields, "after"), (int) number(fields, "limit"), number(fields, "epoch_seen"));
            case "Mkdirs" -> new Request.Mkdirs(text(fields, "path"), stamp(fields));
            case "Delete" -> new Request.Delete(text(fields, "path"), flag(fields, "recursive"), stamp(fields));
            case "Rename" -> new Request.Rename(text(fields, "source"), text(fields, "target"), flag(fields, "overwrite"), stamp(fields));
            case "Claim" -> new Request.Claim(text(fields, "path"), stamp(fields));
            case "Mark" -> {
                Map<String, String> values = new LinkedHashMap<>();
                fields.get("values").forEach(pair -> values.put(pair.get(0).asText(), pair.get(1).asText()));
                yield new Request.Mark(values, stamp(fields));
            }
            default -> throw new AssertionError("a message that the shim does not know: " + message);
        };
    }

    private static void decodes(JsonNode vector) throws IOException {
        Answer answer = read(HexFormat.of().parseHex(vector.get("frame").asText()));
        equal(expected(vector.get("message").asText(), vector.get("fields")), comparable(answer));
    }

    private static void cutShort(JsonNode vector) {
        byte[] frame = HexFormat.of().parseHex(vector.get("frame").asText());
        for (int size = 0; size < frame.length; size++) {
            byte[] part = java.util.Arrays.copyOf(frame, size);
            thrown(EOFException.class, () -> read(part));
        }
        byte[] body = java.util.Arrays.copyOfRange(frame, 5, frame.length);
        for (int size = 0; size < body.length; size++) {
            ByteBuffer part = ByteBuffer.wrap(body, 0, size).slice();
            thrown(ProtocolException.class, () -> Answer.decode(FrameType.of(frame[4] & 0xff), part));
        }
    }

    private static void withJunk(JsonNode vector) {
        byte[] frame = HexFormat.of().parseHex(vector.get("frame").asText());
        byte[] longer = java.util.Arrays.copyOfRange(frame, 5, frame.length + 1);
        thrown(ProtocolException.class, () -> Answer.decode(FrameType.of(frame[4] & 0xff), ByteBuffer.wrap(longer)));
    }

    private static Answer read(byte[] frame) throws IOException {
        return Frames.read(new DataInputStream(new ByteArrayInputStream(frame)));
    }

    private static Object expected(String message, JsonNode fields) {
        return switch (message) {
            case "Welcome" -> List.of(number(fields, "version"), hex(fields.get("service")), number(fields, "frame_bytes_max"),
                    number(fields, "piece_bytes_max"), number(fields, "time_ms"));
            case "Opened" -> new Answer.Opened(number(fields, "epoch"), text(fields, "volume"));
            case "Status" -> new Answer.Status(number(fields, "epoch"), entry(fields.get("status")));
            case "Data" -> List.of(number(fields, "offset"), hex(fields.get("payload")));
            case "Done" -> new Answer.Done(number(fields, "epoch"), flag(fields, "applied"));
            case "PageAnswer" -> {
                List<FileEntry> entries = new ArrayList<>();
                fields.get("entries").forEach(each -> entries.add(entry(each)));
                yield new Answer.Page(number(fields, "epoch"), entries, flag(fields, "more"));
            }
            case "ReadEnd" -> new Answer.ReadEnd(number(fields, "epoch"), number(fields, "next_offset"));
            case "Waiting" -> new Answer.Waiting(number(fields, "epoch"), number(fields, "waited_ms"));
            case "Refusal" -> List.of(number(fields, "epoch"), number(fields, "code"), text(fields, "message"), pairs(fields.get("fields")));
            default -> throw new AssertionError("an answer that the shim does not know: " + message);
        };
    }

    private static Object comparable(Answer answer) {
        if (answer instanceof Answer.Welcome welcome) {
            return List.of(welcome.version(), HexFormat.of().formatHex(welcome.service()), welcome.frameBytesMax(),
                    welcome.pieceBytesMax(), welcome.timeMillis());
        }
        if (answer instanceof Answer.Data data) {
            byte[] payload = new byte[data.payload().remaining()];
            data.payload().get(payload);
            return List.of(data.offset(), HexFormat.of().formatHex(payload));
        }
        if (answer instanceof Answer.Refusal refusal) {
            Map<String, String> fields = new LinkedHashMap<>();
            refusal.fields().forEach((key, value) -> fields.put(key, shown(value)));
            return List.of(refusal.epoch(), (long) refusal.code(), refusal.message(), fields);
        }
        return answer;
    }

    private static Map<String, String> pairs(JsonNode node) {
        Map<String, String> pairs = new LinkedHashMap<>();
        for (JsonNode pair : node) {
            JsonNode value = pair.get(1);
            pairs.put(pair.get(0).asText(), value.has("hex") ? value.get("hex").asText() : value.asText());
        }
        return pairs;
    }

    private static String shown(Object value) {
        return value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes) : String.valueOf(value);
    }

    private static FileEntry entry(JsonNode node) {
        return new FileEntry(text(node, "path"), flag(node, "is_directory"), number(node, "size"), number(node, "modified_ms"));
    }

    private static OperationStamp stamp(JsonNode fields) {
        JsonNode stamp = fields.get("stamp");
        JsonNode claim = stamp.get("claim");
        return new OperationStamp(
                new OperationId(bytes(stamp.get("operation").get("client")), number(stamp.get("operation"), "sequence")),
                claim.isNull() ? null : new PathClaim(text(claim, "application"), number(claim, "start_time")),
                number(stamp, "epoch_seen"));
    }

    private static String text(JsonNode fields, String name) {
        return fields.get(name).textValue();
    }

    private static long number(JsonNode fields, String name) {
        return fields.get(name).longValue();
    }

    private static boolean flag(JsonNode fields, String name) {
        return fields.get(name).booleanValue();
    }

    private static String hex(JsonNode node) {
        return node.get("hex").textValue();
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : HexFormat.of().parseHex(hex(node));
    }
}
