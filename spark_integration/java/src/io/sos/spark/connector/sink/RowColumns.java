package io.sos.spark.connector.sink;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Where in a query's rows the value, the key and the sequence are; -1 where there is none. */
record RowColumns(int value, boolean isValueText, int key, boolean isKeyText, int sequence) implements Serializable {
    /** `sequence` is looked at if rows are to be ordered by it. IllegalArgumentException for columns that have no place in a row. */
    static RowColumns of(StructType schema, boolean isOrdered) {
        int value = -1;
        int key = -1;
        int sequence = -1;
        StructField[] fields = schema.fields();
        for (int i = 0; i < fields.length; i++) {
            switch (fields[i].name()) {
                case "value" -> value = i;
                case "key" -> key = i;
                case "sequence" -> sequence = i;
                default -> throw wrong("has no place for the column " + fields[i].name() + ", only for value, key and sequence;"
                        + " several columns are put into one with, for example, to_json(struct(*)) AS value");
            }
        }
        if (value < 0) {
            throw wrong("needs a column value");
        }
        if (isOrdered && sequence < 0) {
            throw wrong("that orders by sequence (order=sequence) needs a column sequence");
        }
        if (isOrdered && !fields[sequence].dataType().catalogString().equals("bigint")) {
            throw wrong("takes a column sequence of type bigint, not " + fields[sequence].dataType().catalogString());
        }
        return new RowColumns(
                value,
                isText(fields[value]),
                key,
                key >= 0 && isText(fields[key]),
                isOrdered ? sequence : -1);
    }

    private static boolean isText(StructField field) {
        String type = field.dataType().catalogString();
        if (type.startsWith("string")) {
            return true;
        }
        if (!type.equals("binary")) {
            throw wrong("takes a column " + field.name() + " of type binary or string, not " + type
                    + ": CAST(" + field.name() + " AS STRING) makes one");
        }
        return false;
    }

    private static IllegalArgumentException wrong(String sentence) {
        return new IllegalArgumentException("A sos-connector sink " + sentence + ".");
    }

    /** Null if the row has none. */
    byte[] value(InternalRow row) {
        return bytes(row, value, isValueText);
    }

    /** Null if the row has none. */
    byte[] key(InternalRow row) {
        return bytes(row, key, isKeyText);
    }

    private static byte[] bytes(InternalRow row, int column, boolean isText) {
        if (row.isNullAt(column)) {
            return null;
        }
        return isText ? row.getUTF8String(column).getBytes() : row.getBinary(column);
    }
}
