package io.sos.spark;

import io.sos.spark.gateway.PathClaim;
import org.apache.spark.SparkEnv;

/** Which Spark application this JVM belongs to, driver and executors alike. */
public final class SparkApplication {
    private SparkApplication() {}

    /** The pair that every change carries; null outside Spark. Asked for each change, as a JVM may start a second application. */
    public static PathClaim current() {
        try {
            SparkEnv environment = SparkEnv.get();
            if (environment == null) {
                return null;
            }
            String application = environment.conf().get("spark.app.id", null);
            String startTime = environment.conf().get("spark.app.startTime", null);
            if (application == null || startTime == null) {
                return null;
            }
            return new PathClaim(application, Long.parseLong(startTime));
        } catch (NoClassDefFoundError notSpark) {
            return null;
        }
    }
}
