package io.sos.spark.connector.source;

import java.util.Map;
import java.util.TreeMap;

/**
 * How values are to be decoded: option("schema", DDL), valueFormat and the options of the format, json.NAME or csv.NAME.
 *
 * @param schema as Spark writes columns: "user STRING, n INT"
 * @param isCsv or else JSON
 * @param options for Spark's function, by its names
 */
record ValueFormat(String schema, boolean isCsv, Map<String, String> options) {
    static final String SCHEMA = "schema";
    static final String FORMAT = "valueFormat";
    static final String JSON = "json.";
    static final String CSV = "csv.";

    /** Null: values stay bytes. {@code given} without regard to case. IllegalArgumentException for what does not fit together. */
    static ValueFormat of(Map<String, String> given) {
        boolean isCsv = isCsv(given.getOrDefault(FORMAT, "json"));
        Map<String, String> options = new TreeMap<>();
        for (Map.Entry<String, String> option : given.entrySet()) {
            String prefix = prefixOf(option.getKey());
            if (prefix != null && given.get(SCHEMA) != null && prefix.equals(CSV) != isCsv) {
                throw new IllegalArgumentException("the option " + option.getKey() + " is for valueFormat "
                        + (isCsv ? "json, and values are read as csv" : "csv, and values are read as json"));
            }
            if (prefix != null) {
                options.put(option.getKey().substring(prefix.length()), option.getValue());
            }
        }
        if (given.get(SCHEMA) == null && (given.containsKey(FORMAT) || !options.isEmpty())) {
            throw new IllegalArgumentException("values are decoded only with option(\"schema\", \"user STRING, n INT\")");
        }
        return given.get(SCHEMA) == null ? null : new ValueFormat(given.get(SCHEMA), isCsv, options);
    }

    private static boolean isCsv(String format) {
        if (!format.equalsIgnoreCase("json") && !format.equalsIgnoreCase("csv")) {
            throw new IllegalArgumentException("option valueFormat: '" + format + "' is neither json nor csv");
        }
        return format.equalsIgnoreCase("csv");
    }

    /** Null: not an option of a format. */
    static String prefixOf(String option) {
        if (option.regionMatches(true, 0, JSON, 0, JSON.length())) {
            return JSON;
        }
        return option.regionMatches(true, 0, CSV, 0, CSV.length()) ? CSV : null;
    }
}
