package io.sos.spark.gateway;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What the shards of a volume are called, and which one has a path: the same rules as journal/records/shards.py, and no state.
 * What lies in {@code state/OPERATOR/PARTITION} of a checkpoint is in shard (OPERATOR + PARTITION) mod N, all else in shard 0.
 */
record ShardMap(String volume, int count) {
    static final int COUNT_MAX = 64;
    private static final int PIECE_CHARACTERS = 200;
    private static final Pattern OPERATOR = Pattern.compile("(?:.*/)?(state/[0-9]{1,9})", Pattern.DOTALL);
    private static final Pattern PARTITION = Pattern.compile("(?:^|/)(state/([0-9]{1,9}))/([0-9]{1,9})(?=/|\\z)");

    String name(int index) {
        return volume + ".shard-" + index + "-of-" + count;
    }

    /** Of a directory above partitions it is 0, which says that it exists. */
    int shardOf(String path) {
        Matcher match = PARTITION.matcher(path);
        return match.find() ? (int) ((Long.parseLong(match.group(2)) + Long.parseLong(match.group(3))) % count) : 0;
    }

    /** Whether a path is a partition's directory or lies in one: it is in one shard with all that lies below it. */
    static boolean isInPartition(String path) {
        return PARTITION.matcher(path).find();
    }

    /** Of a path in a partition: the directory above the partition, which shard 0 must have. */
    static String operatorDirectory(String path) {
        Matcher match = PARTITION.matcher(path);
        if (!match.find()) {
            throw new IllegalArgumentException(path + " is not in a partition");
        }
        return path.substring(0, match.end(1));
    }

    /** Whether a path's children may lie in several shards: state/OPERATOR of a checkpoint. */
    static boolean hasPartitionsOfAll(String path) {
        return OPERATOR.matcher(path).matches() && !isInPartition(path);
    }

    /** Whether whatever lies at or below {@code source} has its shard also when that is called {@code target}. */
    boolean movesWithinShards(String source, String target) {
        if (isInPartition(source) || isInPartition(target)) {
            return isInPartition(source) && isInPartition(target) && shardOf(source) == shardOf(target);
        }
        return openEnd(source).equals(openEnd(target));
    }

    /** What of a partition's path a directory above partitions ends with: its children's shards depend on it. */
    private static String openEnd(String path) {
        Matcher match = OPERATOR.matcher(path);
        if (match.matches()) {
            return match.group(1);
        }
        return path.equals("state") || path.endsWith("/state") ? "state" : "";
    }

    /** The mark that stands in every shard before a change that all make: readers of the logs know by it what belongs together. */
    static Map<String, String> markOfChange(String token, List<String> paths) {
        Map<String, String> values = new LinkedHashMap<>();
        values.put("spread_change", token);
        List<String> names = List.of("spread_path", "spread_to");
        for (int number = 0; number < paths.size(); number++) {
            List<String> pieces = pieces("/" + paths.get(number));
            for (int at = 0; at < pieces.size(); at++) {
                values.put(names.get(number) + "." + at, pieces.get(at));
            }
        }
        return values;
    }

    /** By characters, of which one may be two chars. */
    private static List<String> pieces(String text) {
        List<String> pieces = new ArrayList<>();
        for (int start = 0; start < text.length(); ) {
            int left = text.codePointCount(start, text.length());
            int end = text.offsetByCodePoints(start, Math.min(PIECE_CHARACTERS, left));
            pieces.add(text.substring(start, end));
            start = end;
        }
        return pieces;
    }
}
