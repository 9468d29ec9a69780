package io.sos.spark.gateway;

/** Part of a file, and what the file was when it was read. */
public record Piece(FileEntry entry, long offset, byte[] bytes) {}
