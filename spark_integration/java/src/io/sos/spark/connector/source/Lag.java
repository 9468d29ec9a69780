package io.sos.spark.connector.source;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/** How far a query is behind what has come, for its progress reports. */
final class Lag {
    /** Of one volume: who is further behind is told of what comes next only. */
    private static final long BYTES_COUNTED_MAX = 16 << 20;

    private Lag() {}

    static Map<String, String> of(Map<String, VolumeLog> logs, SequenceOffset consumed, boolean byStream)
            throws IOException {
        long messages = 0;
        long bytes = 0;
        Map<String, Long> messagesOf = new TreeMap<>();
        for (VolumeLog log : logs.values()) {
            Long next = consumed.next(log.volume());
            if (next != null && next < log.end()) {
                messages += log.end() - next;
                bytes += log.bytesFrom(next);
                if (byStream) {
                    count(log, next, messagesOf);
                }
            }
        }
        Map<String, String> metrics = new HashMap<>();
        metrics.put("lagMessages", Long.toString(messages));
        metrics.put("lagBytes", Long.toString(bytes));
        if (byStream) {
            metrics.put("lagByStream", json(messagesOf));
        }
        return metrics;
    }

    private static void count(VolumeLog log, long next, Map<String, Long> messagesOf) throws IOException {
        long after = Math.min(log.end(), log.endWithin(next, BYTES_COUNTED_MAX));
        try (MessageReader reader = new MessageReader(log.range(next, after, 0, 1))) {
            while (reader.next()) {
                messagesOf.merge(reader.get().getUTF8String(MessageRow.STREAM_NAME).toString(), 1L, Long::sum);
            }
        }
        if (after < log.end()) {
            messagesOf.merge("(not counted)", log.end() - after, Long::sum);
        }
    }

    private static String json(Map<String, Long> messagesOf) {
        StringBuilder json = new StringBuilder("{");
        messagesOf.forEach((stream, messages) -> {
            json.append(json.length() > 1 ? "," : "").append('"');
            stream.chars().forEach(c -> json.append(
                    c == '"' || c == '\\' ? "\\" + (char) c : c < ' ' ? String.format("\\u%04x", c) : String.valueOf((char) c)));
            json.append("\":").append(messages);
        });
        return json.append('}').toString();
    }
}
