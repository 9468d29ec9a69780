package io.sos.spark.connector.source;

import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.csv.CSVOptions;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/**
 * Messages as rows whose value is decoded, by Spark's own from_json or from_csv: the session resolves and optimizes a selection
 * of them over no rows, and what its plan computes is what each task does with its rows.
 *
 * <p>Lists of Scala have one type in Spark 3.5 and another since 4.0, so what takes or gives one is called by its name.
 */
final class ValueDecoding implements Serializable {
    private static final long serialVersionUID = 1L;

    private final transient StructType schema;
    /** What is computed, and of which columns: lists of Catalyst's expressions. */
    private final Object expressions;

    private final Object columns;

    /** On the driver. IllegalArgumentException for a schema or an option that the function does not take. */
    ValueDecoding(ValueFormat format) {
        format.options().keySet().forEach(name -> check(name, format.isCsv()));
        Dataset<Row> decoded;
        try {
            decoded = noMessages().select(columnsOf(format));
            this.schema = decoded.schema();
        } catch (Exception wrong) { // Scala throws what Java does not see coming: ParseException, AnalysisException
            throw new IllegalArgumentException("option schema: '" + format.schema() + "' is not accepted by Spark: "
                    + String.valueOf(wrong.getMessage()).strip(), wrong);
        }
        LogicalPlan plan = decoded.queryExecution().optimizedPlan();
        this.expressions = call(plan, "projectList");
        this.columns = call(call(call(plan, "children"), "head"), "output");
    }

    private static void check(String name, boolean isCsv) {
        if (!(isCsv ? CSVOptions.isValidOption(name) : JSONOptions.isValidOption(name))) {
            throw new IllegalArgumentException("Spark has no option '" + name + "' for " + (isCsv ? "CSV" : "JSON")
                    + " (upper and lower case as in its documentation)");
        }
    }

    private static Dataset<Row> noMessages() {
        JavaSparkContext context = JavaSparkContext.fromSparkContext(SparkContext.getOrCreate());
        return SparkSession.active().createDataFrame(context.<Row>emptyRDD(), MessageRow.SCHEMA);
    }

    private static Column[] columnsOf(ValueFormat format) {
        Column[] all = Arrays.stream(MessageRow.SCHEMA.fieldNames()).map(functions::col).toArray(Column[]::new);
        Column text = all[MessageRow.VALUE].cast("string");
        Column schema = functions.lit(format.schema());
        Column decoded = format.isCsv()
                ? functions.from_csv(text, schema, format.options())
                : functions.from_json(text, schema, format.options());
        all[MessageRow.VALUE] = decoded.alias(MessageRow.SCHEMA.fieldNames()[MessageRow.VALUE]);
        return all;
    }

    /** Of the rows. On the driver. */
    StructType schema() {
        return schema;
    }

    /** For one task. */
    UnsafeProjection projection() {
        for (Method method : UnsafeProjection.class.getMethods()) {
            if (method.getName().equals("create") && method.getParameterCount() == 2) {
                return (UnsafeProjection) invoke(method, null, expressions, columns);
            }
        }
        throw new IllegalStateException("this Spark has no UnsafeProjection.create(expressions, columns)");
    }

    private static Object call(Object target, String name) {
        try {
            return invoke(target.getClass().getMethod(name), target);
        } catch (NoSuchMethodException otherSpark) {
            throw new IllegalStateException("this Spark plans option(\"schema\") in another way: " + target.getClass().getName()
                    + " has no " + name + ". Leave the option out, and decode value in the query", otherSpark);
        }
    }

    private static Object invoke(Method method, Object target, Object... arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(thrown.getCause());
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
