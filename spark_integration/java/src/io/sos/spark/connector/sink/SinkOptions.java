package io.sos.spark.connector.sink;

import io.sos.spark.gateway.ServiceAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.internal.SQLConf;

/**
 * What a query says about its sinks.
 *
 * @param sinks a sink is its place in this list
 * @param relay HOST:PORT, or null: as the session's settings say
 * @param checkpoint sos://VOLUME/path
 * @param isOrdered rows leave in the order of their column `sequence`, else in the order of partitions
 * @param attempts how many transactions are tried when sinks vote abort
 * @param timeoutSeconds how long a batch waits for its sinks
 */
public record SinkOptions(
        List<String> sinks,
        String relay,
        String checkpoint,
        boolean isOrdered,
        String cookie,
        int attempts,
        int timeoutSeconds) {
    /** Longer than what a sink takes to be started elsewhere by hand. */
    private static final int TIMEOUT_SECONDS = 900;

    private static final int ATTEMPTS = 5;
    private static final int ATTEMPTS_MAX = 1000;
    private static final int SINKS_MAX = 64;
    private static final int COOKIE_BYTES_MAX = 1024;

    private static final String CONNECT = "connect";
    private static final String RELAY = "relay";
    private static final String ORDER = "order";
    private static final String COOKIE = "cookie";
    private static final String ATTEMPTS_KEY = "attempts";
    private static final String TIMEOUT = "timeout";
    private static final String CHECKPOINT = "checkpointlocation";
    private static final String QUERY_NAME = "queryname";
    private static final String PATH = "path";

    private static final Set<String> OWN = Set.of(CONNECT, RELAY, ORDER, COOKIE, ATTEMPTS_KEY, TIMEOUT);
    /** What Spark itself is told by the same way. */
    private static final Set<String> SPARKS = Set.of(CHECKPOINT, QUERY_NAME, PATH);

    /** Whether these are the options of a streaming query's sink: sources have no checkpoint, and nor have batch jobs. */
    public static boolean areOfSink(Map<String, String> given) {
        return inLowerCase(given).containsKey(CHECKPOINT);
    }

    /** Whether rows are to leave in the order of their sequences; asked before anything is known to be in order. */
    static boolean areOrdered(Map<String, String> given) {
        return "sequence".equals(inLowerCase(given).get(ORDER));
    }

    /** IllegalArgumentException, with a sentence, for what is missing, unknown, or not in order. */
    public static SinkOptions of(Map<String, String> given) {
        Map<String, String> options = inLowerCase(given);
        for (String name : options.keySet()) {
            if (!OWN.contains(name) && !SPARKS.contains(name)) {
                throw wrong("has no option '" + name + "'; it has connect, relay, order, cookie, attempts, timeout");
            }
        }
        if (options.containsKey(PATH)) {
            throw wrong("writes to no path: start() takes none, and the sinks are the option connect");
        }
        String cookie = options.getOrDefault(COOKIE, "");
        if (cookie.getBytes(StandardCharsets.UTF_8).length > COOKIE_BYTES_MAX) {
            throw wrong("takes a cookie of at most " + COOKIE_BYTES_MAX + " bytes");
        }
        return new SinkOptions(
                sinks(options.get(CONNECT)),
                relay(options.get(RELAY)),
                checkpoint(options),
                isOrdered(options.getOrDefault(ORDER, "partition")),
                cookie,
                number(ATTEMPTS_KEY, options.get(ATTEMPTS_KEY), ATTEMPTS, ATTEMPTS_MAX),
                number(TIMEOUT, options.get(TIMEOUT), TIMEOUT_SECONDS, Integer.MAX_VALUE));
    }

    private static Map<String, String> inLowerCase(Map<String, String> given) {
        Map<String, String> options = new TreeMap<>();
        given.forEach((name, value) -> options.put(name.toLowerCase(Locale.ROOT), value));
        return options;
    }

    private static List<String> sinks(String connect) {
        if (connect == null || connect.isBlank()) {
            throw wrong("needs the option connect: where its sinks listen, HOST:PORT, several between commas");
        }
        List<String> sinks = new ArrayList<>();
        for (ServiceAddress address : addresses(CONNECT, connect)) {
            if (sinks.contains(address.toString())) {
                throw wrong("was given " + address + " twice in its option connect");
            }
            sinks.add(address.toString());
        }
        if (sinks.isEmpty() || sinks.size() > SINKS_MAX) {
            throw wrong("takes 1 to " + SINKS_MAX + " addresses in its option connect, not " + sinks.size());
        }
        return List.copyOf(sinks);
    }

    private static String relay(String told) {
        if (told != null && addresses(RELAY, told).isEmpty()) {
            throw wrong("was given an option relay without an address");
        }
        return told;
    }

    private static List<ServiceAddress> addresses(String option, String text) {
        try {
            return ServiceAddress.parseList(text);
        } catch (IllegalArgumentException e) {
            throw wrong("cannot read its option " + option + ": " + e.getMessage());
        }
    }

    /** Where Spark keeps it: as the option says, else below the session's, in a folder of the query's name. */
    private static String checkpoint(Map<String, String> options) {
        String told = options.get(CHECKPOINT);
        String below = SQLConf.get().getConfString("spark.sql.streaming.checkpointLocation", null);
        if (told == null && below != null && options.get(QUERY_NAME) != null) {
            told = below + "/" + options.get(QUERY_NAME);
        }
        if (told == null || !told.matches("sos://[^/]+/.+")) {
            throw wrong("needs a checkpoint on a volume, since its decisions are kept beside it: the option"
                    + " checkpointLocation, sos://VOLUME/path" + (told == null ? "" : ", not " + told));
        }
        return told.replaceAll("/+$", "");
    }

    private static boolean isOrdered(String order) {
        return switch (order) {
            case "partition" -> false;
            case "sequence" -> true;
            default -> throw wrong("knows the orders partition and sequence, not '" + order + "'");
        };
    }

    private static int number(String option, String text, int otherwise, int max) {
        if (text == null) {
            return otherwise;
        }
        try {
            int number = Integer.parseInt(text.strip());
            if (number >= 1 && number <= max) {
                return number;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw wrong("takes a number from 1 to " + max + " in its option " + option + ", not '" + text + "'");
    }

    private static IllegalArgumentException wrong(String sentence) {
        return new IllegalArgumentException("A sos-connector sink " + sentence + ".");
    }
}
