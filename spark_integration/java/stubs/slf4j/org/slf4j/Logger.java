package org.slf4j;

public interface Logger {
    void warn(String format, Object argument);

    void warn(String format, Object first, Object second);
}
