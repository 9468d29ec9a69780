package io.sos.spark.gateway;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/** Requests to frames and frames to answers: u32 length | u8 type | body, the length counting type and body. */
final class Frames {
    static final int DATA_HEAD_BYTES = 8 + 4;

    private static final byte[] NO_TOKEN = new byte[Limits.TOKEN_BYTES];

    private Frames() {}

    static void write(Request request, DataOutputStream out) throws IOException {
        MsgpackWriter packed = new MsgpackWriter();
        request.writeTo(packed);
        byte[] meta = packed.toByteArray();
        if (request instanceof Request.Hello hello) {
            header(request, 2 + 1 + Limits.TOKEN_BYTES + meta.length, out);
            out.writeShort(Limits.VERSION);
            out.writeBoolean(hello.token() != null);
            out.write(hello.token() != null ? hello.token() : NO_TOKEN);
            out.write(meta);
        } else if (request instanceof Request.Put put) {
            withPayload(request, meta, put.payload(), put.payload().length, out);
        } else if (request instanceof Request.Append append) {
            withPayload(request, meta, append.payload(), append.length(), out);
        } else if (request instanceof Request.Data data) {
            header(request, DATA_HEAD_BYTES + data.length(), out);
            out.writeLong(data.offset());
            out.writeInt((int) crc32c(data.payload(), data.length()));
            out.write(data.payload(), 0, data.length());
        } else {
            header(request, meta.length, out);
            out.write(meta);
        }
    }

    /** The next answer, which may be WAITING. EOFException, which says so, when the connection ends. */
    static Answer read(DataInputStream in) throws IOException {
        try {
            return readWhole(in);
        } catch (EOFException e) {
            throw (EOFException) new EOFException("the service closed the connection").initCause(e);
        }
    }

    private static Answer readWhole(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 1 || length > Limits.FRAME_BYTES_MAX) {
            throw new ProtocolException("a frame of " + (length & 0xffffffffL) + " bytes: is this a journal service?");
        }
        int code = in.readUnsignedByte();
        byte[] body = new byte[length - 1];
        in.readFully(body);
        return Answer.decode(FrameType.of(code), ByteBuffer.wrap(body));
    }

    static long crc32c(byte[] bytes, int length) {
        return crc32c(ByteBuffer.wrap(bytes, 0, length));
    }

    static long crc32c(ByteBuffer bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return crc.getValue();
    }

    private static void withPayload(Request request, byte[] meta, byte[] payload, int length, DataOutputStream out)
            throws IOException {
        header(request, 4 + meta.length + length, out);
        out.writeInt(meta.length);
        out.write(meta);
        out.write(payload, 0, length);
    }

    private static void header(Request request, int bodyBytes, DataOutputStream out) throws IOException {
        out.writeInt(1 + bodyBytes);
        out.writeByte(request.type().code());
    }
}
