package org.apache.spark.sql.util;

import java.util.Map;

/** What the shim sees of Spark's class of this name: keys are in lower case. Compiled against, never shipped. */
public abstract class CaseInsensitiveStringMap implements Map<String, String> {
    public Map<String, String> asCaseSensitiveMap() {
        throw new AssertionError("a stub");
    }
}
