package io.sos.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.internal.SQLConf;

/** The settings fs.sos.* as the present session has them. On the driver only; executors are given what they need. */
public final class SessionConfiguration {
    private SessionConfiguration() {}

    /** The context's Hadoop configuration, and what the session has set for itself: as Spark gives it to checkpoint managers. */
    public static Configuration current() {
        Configuration configuration = new Configuration(SparkContext.getOrCreate().hadoopConfiguration());
        SQLConf session = SQLConf.get();
        for (String key : SosSettings.KEYS) {
            String value = session.getConfString(key, null);
            if (value != null) {
                configuration.set(key, value);
            }
        }
        return configuration;
    }
}
