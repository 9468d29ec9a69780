package io.sos.spark.gateway;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/** Requests to frames and frames to answers: u32 length | u8 type | body, the length counting type and body. */
final class Frames {
    static final int DATA_HEAD_BYTES = 8 + 4;
    private static final int LENGTH_BYTES = 4;
    private static final int HEADER_BYTES = LENGTH_BYTES + 1;
    private static final int TAG_BYTES = 4;

    private static final byte[] NO_TOKEN = new byte[Limits.TOKEN_BYTES];

    private Frames() {}

    /** The tag of what concerns no request: WAITING, and the ERROR that ends a shared connection. */
    static final int OF_THE_CONNECTION = 0;

    /** An answer on a shared connection. */
    record Tagged(int tag, Answer answer) {}

    /** The frame of a request on a connection that takes one at a time. */
    static byte[] of(Request request) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        write(request, new DataOutputStream(bytes));
        return bytes.toByteArray();
    }

    /** The frame of a request on a shared connection: after the type comes the tag. */
    static byte[] of(Request request, int tag) throws IOException {
        byte[] frame = of(request);
        byte[] tagged = new byte[frame.length + TAG_BYTES];
        ByteBuffer.wrap(tagged)
                .putInt(frame.length - LENGTH_BYTES + TAG_BYTES)
                .put(frame[LENGTH_BYTES])
                .putInt(tag)
                .put(frame, HEADER_BYTES, frame.length - HEADER_BYTES);
        return tagged;
    }

    /** Gives a frame on a shared connection another tag. */
    static void tag(byte[] frame, int tag) {
        ByteBuffer.wrap(frame).putInt(HEADER_BYTES, tag);
    }

    static void write(Request request, DataOutputStream out) throws IOException {
        MsgpackWriter packed = new MsgpackWriter();
        request.writeTo(packed);
        byte[] meta = packed.toByteArray();
        if (request instanceof Request.Hello hello) {
            header(request, 2 + 1 + Limits.TOKEN_BYTES + meta.length, out);
            out.writeShort(hello.version());
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
            Frame frame = readFrame(in);
            return Answer.decode(frame.type, frame.body);
        } catch (EOFException e) {
            throw closed(e);
        }
    }

    /** The next answer on a shared connection. */
    static Tagged readTagged(DataInputStream in) throws IOException {
        try {
            Frame frame = readFrame(in);
            if (frame.body.remaining() < TAG_BYTES) {
                throw new ProtocolException("a frame without a tag on a shared connection");
            }
            int tag = frame.body.getInt();
            return new Tagged(tag, Answer.decode(frame.type, frame.body.slice()));
        } catch (EOFException e) {
            throw closed(e);
        }
    }

    private static EOFException closed(EOFException e) {
        return (EOFException) new EOFException("the service closed the connection").initCause(e);
    }

    private record Frame(FrameType type, ByteBuffer body) {}

    private static Frame readFrame(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 1 || length > Limits.FRAME_BYTES_MAX) {
            throw new ProtocolException("a frame of " + (length & 0xffffffffL) + " bytes: is this a journal service?");
        }
        int code = in.readUnsignedByte();
        byte[] body = new byte[length - 1];
        in.readFully(body);
        return new Frame(FrameType.of(code), ByteBuffer.wrap(body));
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
