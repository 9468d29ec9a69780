package io.sos.spark.connector.sink;

import io.sos.spark.gateway.Content;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Which attempts are the batch, as JSON: connectors/relay/STAGING.md has its fields. */
final class Manifest implements Content {
    private static final int VERSION = 2;

    private final StringBuilder text = new StringBuilder("{\"version\":" + VERSION);
    private final byte[] bytes;

    /** `plan`: null if it is not known. */
    Manifest(StagingPlace place, long batch, String plan, SinkOptions options, List<StagedPart> parts) {
        field("query").quoted(place.query());
        field("batch").text.append(batch);
        field("run").quoted(place.run());
        if (plan != null) {
            field("plan").quoted(plan);
        }
        field("checkpoint").quoted(options.checkpoint());
        field("sinks").text.append('[');
        for (int i = 0; i < options.sinks().size(); i++) {
            comma(i).quoted(options.sinks().get(i));
        }
        text.append(']');
        field("order").quoted(options.isOrdered() ? "sequence" : "partition");
        field("cookie").quoted(options.cookie());
        field("attempts").text.append(options.attempts());
        field("parts").text.append('[');
        for (int i = 0; i < parts.size(); i++) {
            StagedPart part = parts.get(i);
            comma(i).text.append('[');
            quoted(part.name());
            text.append(',').append(part.rows()).append(',').append(part.bytes()).append(']');
        }
        text.append("]}");
        bytes = text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private Manifest field(String name) {
        text.append(',');
        quoted(name);
        text.append(':');
        return this;
    }

    private Manifest comma(int position) {
        if (position > 0) {
            text.append(',');
        }
        return this;
    }

    private void quoted(String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char each = value.charAt(i);
            if (each == '"' || each == '\\') {
                text.append('\\').append(each);
            } else if (each < ' ' || Character.isSurrogate(each)) { // a lone surrogate has no UTF-8
                text.append(String.format("\\u%04x", (int) each));
            } else {
                text.append(each);
            }
        }
        text.append('"');
    }

    @Override
    public long size() {
        return bytes.length;
    }

    @Override
    public InputStream open() {
        return new ByteArrayInputStream(bytes);
    }
}
