package io.sos.spark.gateway;

import java.util.HexFormat;

/** Frames that a service may send, byte by byte. */
final class ScriptedAnswers {
    private ScriptedAnswers() {}

    static MsgpackWriter status(MsgpackWriter out, String path, long size) {
        return out.array(4).text(path).bool(false).number(size).number(1);
    }

    static byte[] notOwner(long seen, long owned) {
        MsgpackWriter body = new MsgpackWriter();
        body.array(4).number(owned).number(22).text("not so").array(2);
        body.array(2).text("epoch").number(seen).array(2).text("owned").number(owned);
        return frame(0xaa, body);
    }

    static byte[] refusal(int code, String message, String field, String value) {
        MsgpackWriter body = new MsgpackWriter();
        body.array(4).number(1).number(code).text(message).array(1).array(2).text(field).text(value);
        return frame(0xaa, body);
    }

    static byte[] frame(int type, MsgpackWriter body) {
        return frame(type, body.toByteArray());
    }

    static byte[] frame(int type, byte[] bytes) {
        String head = String.format("%08x%02x", bytes.length + 1, type);
        return HexFormat.of().parseHex(head + HexFormat.of().formatHex(bytes));
    }
}
