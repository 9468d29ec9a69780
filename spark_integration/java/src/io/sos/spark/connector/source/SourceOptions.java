package io.sos.spark.connector.source;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What {@code option(...)} may say of a source, and what it said. IllegalArgumentException, with a sentence, for anything else. */
final class SourceOptions {
    private static final String VOLUME = "volume";
    private static final String SERVICE = "service";
    private static final String SETTINGS = "fs.sos.";
    private static final String STARTING_OFFSETS = "startingOffsets";
    private static final String STARTING_SEQUENCE = "startingSequence";
    private static final String MAX_ROWS = "maxRowsPerBatch";
    private static final String MAX_BYTES = "maxBytesPerBatch";
    private static final String SPLIT_BY = "splitBy";
    private static final String MIN_PARTITIONS = "minPartitions";
    private static final String LAG_BY_STREAM = "lagByStream";
    private static final String FROM_SEQUENCE = "fromSequence";
    private static final String TO_SEQUENCE = "toSequence";
    private static final String FROM_TIME = "fromTime";
    private static final String TO_TIME = "toTime";
    private static final List<String> OF_BOTH =
            List.of(VOLUME, SERVICE, SPLIT_BY, MIN_PARTITIONS, ValueFormat.SCHEMA, ValueFormat.FORMAT);
    private static final List<String> OF_STREAMS =
            List.of(STARTING_OFFSETS, STARTING_SEQUENCE, MAX_ROWS, MAX_BYTES, LAG_BY_STREAM);
    private static final List<String> OF_BATCHES = List.of(FROM_SEQUENCE, TO_SEQUENCE, FROM_TIME, TO_TIME);
    private static final Pattern SIZE = Pattern.compile("(\\d{1,15})\\s*([kmgt]?)i?b?", Pattern.CASE_INSENSITIVE);

    private final Map<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);

    /** An option that no source has is refused here; one of the other kind of reading, where it is known which this is. */
    SourceOptions(Map<String, String> options) {
        Set<String> known = new HashSet<>();
        for (List<String> names : List.of(OF_BOTH, OF_STREAMS, OF_BATCHES)) {
            names.forEach(name -> known.add(name.toLowerCase(Locale.ROOT)));
        }
        options.forEach((name, value) -> {
            String lower = name.toLowerCase(Locale.ROOT);
            if (!known.contains(lower) && !lower.startsWith(SETTINGS) && ValueFormat.prefixOf(name) == null) {
                throw new IllegalArgumentException("the source sos-connector has no option '" + name + "'. It has "
                        + String.join(", ", OF_BOTH) + "; for readStream " + String.join(", ", OF_STREAMS) + "; for read "
                        + String.join(", ", OF_BATCHES) + "; for values that are decoded json.* or csv.*, as Spark's functions"
                        + " have them; and the settings fs.sos.*");
            }
            given.put(name, ValueFormat.prefixOf(name) == null ? value.strip() : value); // a separator may be a tab
        });
    }

    void checkForStream() {
        refuse(OF_BATCHES, "spark.read, not for readStream; a stream has startingOffsets and startingSequence");
    }

    void checkForBatch() {
        refuse(OF_STREAMS, "readStream, not for spark.read; that has fromSequence, toSequence, fromTime and toTime");
    }

    private void refuse(List<String> names, String rather) {
        for (String name : names) {
            if (given.containsKey(name)) {
                throw new IllegalArgumentException("the option " + name + " is for " + rather);
            }
        }
    }

    /** Null: values stay bytes. */
    ValueFormat valueFormat() {
        return ValueFormat.of(given);
    }

    /** Those that are settings, to be put over the session's. */
    Map<String, String> settings() {
        Map<String, String> settings = new TreeMap<>();
        given.forEach((name, value) -> {
            String lower = name.toLowerCase(Locale.ROOT);
            if (lower.startsWith(SETTINGS)) {
                settings.put(lower, value);
            }
        });
        return settings;
    }

    /** Null: not said. */
    String service() {
        return given.get(SERVICE);
    }

    /** {@code ofSession} null: the session has none. */
    List<String> volumes(String ofSession) {
        String text = given.getOrDefault(VOLUME, ofSession);
        if (text == null || text.isBlank()) {
            throw new IllegalArgumentException("the source sos-connector needs option(\"volume\", ...): the ingest volume of a"
                    + " listener, several between commas");
        }
        List<String> volumes = new ArrayList<>();
        for (String part : text.split(",", -1)) {
            String volume = part.strip();
            if (!volume.matches("[A-Za-z0-9_-][A-Za-z0-9._-]*")) {
                throw new IllegalArgumentException("option volume: '" + volume + "' is not the name of a volume");
            }
            if (volumes.contains(volume)) {
                throw new IllegalArgumentException("option volume: " + volume + " is named twice");
            }
            volumes.add(volume);
        }
        return volumes;
    }

    boolean startsAtLatest() {
        String offsets = given.getOrDefault(STARTING_OFFSETS, "earliest");
        return offsets.equalsIgnoreCase("latest");
    }

    /** Where to start where that is said in numbers; empty for earliest and latest. */
    Map<String, Long> startingSequences(List<String> volumes) {
        String offsets = given.get(STARTING_OFFSETS);
        Long sequence = number(STARTING_SEQUENCE, 0);
        if (sequence != null) {
            if (offsets != null) {
                throw new IllegalArgumentException("give either startingSequence or startingOffsets");
            }
            return Map.of(onlyOne(volumes, STARTING_SEQUENCE), sequence);
        }
        if (offsets == null || offsets.equalsIgnoreCase("earliest") || offsets.equalsIgnoreCase("latest")) {
            return Map.of();
        }
        Map<String, Long> said;
        try {
            said = SequenceOffset.parse(offsets).next();
        } catch (IllegalArgumentException malformed) {
            throw new IllegalArgumentException("option startingOffsets: '" + offsets
                    + "' is neither earliest, latest nor {\"VOLUME\":SEQUENCE}");
        }
        if (!volumes.containsAll(said.keySet())) {
            throw new IllegalArgumentException("option startingOffsets names volumes that are not read: " + said.keySet());
        }
        return said;
    }

    /** Long.MAX_VALUE: no limit. */
    long maxRows() {
        Long rows = number(MAX_ROWS, 1);
        return rows != null ? rows : Long.MAX_VALUE;
    }

    /** Long.MAX_VALUE: no limit. */
    long maxBytes() {
        String text = given.get(MAX_BYTES);
        if (text == null) {
            return Long.MAX_VALUE;
        }
        Matcher size = SIZE.matcher(text);
        long bytes = 0;
        if (size.matches()) {
            String unit = size.group(2).toLowerCase(Locale.ROOT);
            int shift = unit.isEmpty() ? 0 : 10 * ("kmgt".indexOf(unit) + 1);
            bytes = Long.parseLong(size.group(1)) << shift;
            bytes = bytes >>> shift == Long.parseLong(size.group(1)) ? bytes : 0;
        }
        if (bytes < 1) {
            throw new IllegalArgumentException("option maxBytesPerBatch: '" + text + "' is not a number of bytes, such as 64m");
        }
        return bytes;
    }

    boolean splitsByStream() {
        String by = given.getOrDefault(SPLIT_BY, "range").toLowerCase(Locale.ROOT);
        if (!by.equals("range") && !by.equals("stream")) {
            throw new IllegalArgumentException("option splitBy: '" + by + "' is neither range nor stream");
        }
        return by.equals("stream");
    }

    /** 0: not said. */
    int minPartitions() {
        Long partitions = number(MIN_PARTITIONS, 1);
        return partitions == null ? 0 : (int) Math.min(partitions, 100_000);
    }

    boolean lagByStream() {
        String by = given.getOrDefault(LAG_BY_STREAM, "false").toLowerCase(Locale.ROOT);
        if (!Arrays.asList("true", "false").contains(by)) {
            throw new IllegalArgumentException("option lagByStream: '" + by + "' is neither true nor false");
        }
        return by.equals("true");
    }

    /** Null: not said. */
    Long fromSequence(List<String> volumes) {
        return sequence(FROM_SEQUENCE, FROM_TIME, volumes);
    }

    /** Null: not said. */
    Long toSequence(List<String> volumes) {
        return sequence(TO_SEQUENCE, TO_TIME, volumes);
    }

    private Long sequence(String name, String orTime, List<String> volumes) {
        Long sequence = number(name, 0);
        if (sequence != null) {
            onlyOne(volumes, name);
            if (given.containsKey(orTime)) {
                throw new IllegalArgumentException("give either " + name + " or " + orTime);
            }
        }
        return sequence;
    }

    /** Milliseconds since 1970; null: not said. {@code zone}: of times that do not say theirs. */
    Long fromTime(ZoneId zone) {
        return time(FROM_TIME, zone);
    }

    /** Milliseconds since 1970; null: not said. */
    Long toTime(ZoneId zone) {
        return time(TO_TIME, zone);
    }

    private static String onlyOne(List<String> volumes, String name) {
        if (volumes.size() != 1) {
            throw new IllegalArgumentException("option " + name + " is for one volume; " + volumes.size()
                    + " are read, and each has sequence numbers of its own");
        }
        return volumes.get(0);
    }

    private Long number(String name, long least) {
        String text = given.get(name);
        if (text == null) {
            return null;
        }
        try {
            long number = Long.parseLong(text);
            if (number >= least) {
                return number;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw new IllegalArgumentException("option " + name + ": '" + text + "' is not a number from " + least + " on");
    }

    private Long time(String name, ZoneId zone) {
        String text = given.get(name);
        if (text == null) {
            return null;
        }
        try {
            return instant(text.replace(' ', 'T'), zone).toEpochMilli();
        } catch (DateTimeException | ArithmeticException malformed) {
            throw new IllegalArgumentException("option " + name + ": '" + text
                    + "' is not a time, such as 2026-11-19T08:00:00Z, 2026-11-19 08:00:00 or 2026-11-19");
        }
    }

    private static Instant instant(String text, ZoneId zone) {
        if (text.indexOf('T') < 0) {
            return LocalDate.parse(text).atStartOfDay(zone).toInstant();
        }
        boolean saysZone = text.endsWith("Z") || text.lastIndexOf('+') > 0 || text.lastIndexOf('-') > text.indexOf('T');
        return saysZone ? OffsetDateTime.parse(text).toInstant() : LocalDateTime.parse(text).atZone(zone).toInstant();
    }
}
