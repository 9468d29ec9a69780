package io.sos.spark.gateway;

/** What the service says about a path. The path is relative to the volume's root, which is the empty path. */
public record FileEntry(String path, boolean isDirectory, long size, long modifiedMillis) {
    static FileEntry read(MsgpackReader in) throws ProtocolException {
        in.array(4, "a status");
        return new FileEntry(
                in.text("a status's path"),
                in.bool("a status's kind"),
                in.number("a status's size"),
                in.number("a status's time"));
    }
}
