package org.apache.hadoop.fs;

import java.io.InputStream;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public abstract class FSInputStream extends InputStream implements Seekable {}
