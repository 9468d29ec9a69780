package org.apache.hadoop.fs;

public interface StreamCapabilities {
    String HFLUSH = "hflush";
    String HSYNC = "hsync";

    boolean hasCapability(String capability);
}
