package org.slf4j;

public interface Logger {
    void warn(String format, Object argument);
}
