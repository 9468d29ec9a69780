package io.sos.spark.connector.source;

import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far volumes have been read: of each the sequence number of the next message. As JSON: {"clicks":1200,"orders":17}. */
final class SequenceOffset extends Offset {
    private static final Pattern ENTRY = Pattern.compile("\\s*\"([^\"\\\\]+)\"\\s*:\\s*(\\d{1,19})\\s*");

    private final Map<String, Long> next;

    SequenceOffset(Map<String, Long> next) {
        this.next = Collections.unmodifiableMap(new TreeMap<>(next));
    }

    /** IllegalArgumentException for what is not one. */
    static SequenceOffset parse(String json) {
        String text = json.strip();
        if (!text.startsWith("{") || !text.endsWith("}")) {
            throw malformed(json);
        }
        Map<String, Long> next = new TreeMap<>();
        String inside = text.substring(1, text.length() - 1);
        for (String entry : inside.isBlank() ? new String[0] : inside.split(",", -1)) {
            Matcher parts = ENTRY.matcher(entry);
            if (!parts.matches()) {
                throw malformed(json);
            }
            try {
                next.put(parts.group(1), Long.parseLong(parts.group(2)));
            } catch (NumberFormatException above63Bits) {
                throw malformed(json);
            }
        }
        return new SequenceOffset(next);
    }

    private static IllegalArgumentException malformed(String json) {
        return new IllegalArgumentException("'" + json + "' does not say how far volumes are read, as {\"VOLUME\":SEQUENCE} does");
    }

    Map<String, Long> next() {
        return next;
    }

    /** Null: the volume is new to this query. */
    Long next(String volume) {
        return next.get(volume);
    }

    @Override
    public String json() {
        StringBuilder json = new StringBuilder("{");
        next.forEach((volume, sequence) -> json.append(json.length() > 1 ? "," : "")
                .append('"').append(volume).append("\":").append(sequence));
        return json.append('}').toString();
    }
}
