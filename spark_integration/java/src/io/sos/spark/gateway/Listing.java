package io.sos.spark.gateway;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A directory's children as they come, page by page: each page must go on where the last one ended, and all of them must
 * fit in memory, whoever answers.
 */
final class Listing {
    private final String path;
    private final List<FileEntry> entries = new ArrayList<>();
    private String last;
    private long characters;
    private boolean goesOn;

    Listing(String path, String after) {
        this.path = path;
        this.last = after;
    }

    List<FileEntry> entries() {
        return entries;
    }

    /** The name after which the next page begins. */
    String last() {
        return last;
    }

    boolean goesOn() {
        return goesOn;
    }

    /** ProtocolException unless this is a page that was asked for. */
    void check(Answer.Page page) throws ProtocolException {
        if (isTheFileItself(page)) {
            return;
        }
        byte[] before = last.getBytes(StandardCharsets.UTF_8);
        for (FileEntry entry : page.entries()) {
            byte[] name = nameIn(entry).getBytes(StandardCharsets.UTF_8);
            if (Arrays.compareUnsigned(before, name) >= 0) {
                throw new ProtocolException("answered LIST of " + path + " with names that were not asked for");
            }
            before = name;
        }
        if (page.more() && page.entries().isEmpty()) {
            throw new ProtocolException("answered LIST of " + path + " with nothing, and with more to come");
        }
    }

    /** RefusedException (TOO_LARGE) when there are more than memory should be given for. */
    void add(Answer.Page page) throws RefusedException {
        for (FileEntry entry : page.entries()) {
            characters += entry.path().length();
        }
        if (entries.size() + page.entries().size() > Limits.LIST_ENTRIES_IN_ALL_MAX
                || characters > Limits.LIST_CHARACTERS_IN_ALL_MAX) {
            throw RefusedException.of(ServiceCode.TOO_LARGE, path + " has over " + entries.size()
                    + " children, which is more than a listing may take of this JVM's memory: use sos-journal ls");
        }
        entries.addAll(page.entries());
        goesOn = page.more();
        if (goesOn) {
            String end = entries.get(entries.size() - 1).path();
            last = end.substring(end.lastIndexOf('/') + 1);
        }
    }

    private boolean isTheFileItself(Answer.Page page) {
        return last.isEmpty()
                && page.entries().size() == 1
                && !page.more()
                && !page.entries().get(0).isDirectory()
                && page.entries().get(0).path().equals(path);
    }

    private String nameIn(FileEntry entry) throws ProtocolException {
        String parent = path.isEmpty() ? "" : path + "/";
        String child = entry.path();
        String name = child.startsWith(parent) ? child.substring(parent.length()) : "";
        if (name.isEmpty() || name.indexOf('/') >= 0) {
            throw new ProtocolException("answered LIST of " + path + " with what is not a child of it");
        }
        return name;
    }
}
