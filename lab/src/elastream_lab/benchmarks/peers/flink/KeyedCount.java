import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.util.Collector;

/**
 * The word count of the comparison as a Flink job: rows at the times they are due, a count for each
 * word in RocksDB, the count after every row written to a file.
 *
 * <p>Janino compiles it, which Spark carries: a machine with a Java runtime needs no compiler. Janino
 * knows no generic overriding, so types are raw, and given to Flink where it asks for them.
 *
 * <p>Arguments: the file of rows, the clock, the file of results, bytes of ballast, what words with
 * ballast begin with.
 */
public final class KeyedCount {

    private static final int ROW_BYTES = 32;
    private static final int DUE_BYTES = 8;
    private static final int RESULT_BYTES = 16;
    private static final int COUNT_BYTES = 8;
    private static final int HASH_BYTES = 128;

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        TypeInformation row = Types.TUPLE(new TypeInformation[] {Types.LONG, Types.STRING});
        TypeInformation result = Types.TUPLE(new TypeInformation[] {Types.LONG, Types.LONG});
        DataStream rows = environment.addSource(new Feed(arguments[0], arguments[1]), "rows", row);
        rows.keyBy(new Word(), Types.STRING)
                .process(new Count(Integer.parseInt(arguments[3]), arguments[4]), result)
                .name("count")
                .addSink(new Results(arguments[2]));
        environment.execute("keyed count");
    }

    private static MappedByteBuffer mapped(String path, boolean writable) throws Exception {
        RandomAccessFile file = new RandomAccessFile(path, writable ? "rw" : "r");
        try {
            FileChannel.MapMode mode =
                    writable ? FileChannel.MapMode.READ_WRITE : FileChannel.MapMode.READ_ONLY;
            return file.getChannel().map(mode, 0L, file.length());
        } finally {
            file.close();
        }
    }

    /** The recording as a source: each row from the time it is due, or opened before all begins. */
    public static final class Feed extends RichSourceFunction implements CheckpointedFunction {

        private static final Pattern OPEN = Pattern.compile("\"open\": *(\\d+)");
        private static final Pattern START = Pattern.compile("\"start_ms\": *(\\d+)");
        private static final int MOST_AT_ONCE = 100;

        private final String rowsPath;
        private final String clockPath;
        private transient MappedByteBuffer rows;
        private transient ListState kept;
        private transient int total;
        private transient int position;
        private transient int due;
        private transient int opened;
        private transient long startMs;
        private volatile boolean running = true;

        public Feed(String rowsPath, String clockPath) {
            this.rowsPath = rowsPath;
            this.clockPath = clockPath;
        }

        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = context.getOperatorStateStore()
                    .getListState(new ListStateDescriptor("position", Types.INT));
            java.util.Iterator found = ((Iterable) kept.get()).iterator();
            position = found.hasNext() ? ((Integer) found.next()).intValue() : 0;
        }

        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(java.util.Collections.singletonList(Integer.valueOf(position)));
        }

        public void open(OpenContext context) throws Exception {
            rows = mapped(rowsPath, false);
            total = rows.capacity() / ROW_BYTES;
            due = position;
            startMs = -1L;
        }

        public void run(SourceFunction.SourceContext context) throws Exception {
            while (running && position < total) {
                int end = Math.min(available(), position + MOST_AT_ONCE);
                if (end <= position) {
                    Thread.sleep(1L);
                } else {
                    synchronized (context.getCheckpointLock()) {
                        while (position < end) {
                            context.collect(new Tuple2(Long.valueOf(position), word(position)));
                            position++;
                        }
                    }
                }
            }
            while (running) {
                Thread.sleep(100L);
            }
        }

        public void cancel() {
            running = false;
        }

        private int available() throws Exception {
            if (startMs < 0) {
                readClock();
            }
            if (startMs >= 0) {
                long elapsedMs = System.currentTimeMillis() - startMs;
                while (due < total && rows.getLong(due * ROW_BYTES) <= elapsedMs) {
                    due++;
                }
            }
            return Math.max(opened, due);
        }

        private void readClock() throws Exception {
            String text;
            try {
                text = new String(Files.readAllBytes(Paths.get(clockPath)), StandardCharsets.UTF_8);
            } catch (NoSuchFileException none) {
                return;
            }
            Matcher open = OPEN.matcher(text);
            opened = open.find() ? Integer.parseInt(open.group(1)) : 0;
            Matcher start = START.matcher(text);
            startMs = start.find() ? Long.parseLong(start.group(1)) : -1L;
        }

        private String word(int row) {
            byte[] text = new byte[ROW_BYTES - DUE_BYTES];
            int length = 0;
            int at = row * ROW_BYTES + DUE_BYTES;
            while (length < text.length && rows.get(at + length) != 0) {
                text[length] = rows.get(at + length);
                length++;
            }
            return new String(text, 0, length, StandardCharsets.US_ASCII);
        }
    }

    /** The key of a row. */
    public static final class Word implements KeySelector {

        public Object getKey(Object row) {
            return ((Tuple2) row).f1;
        }
    }

    /** The count of every word, and its ballast, in one value of the state. */
    public static final class Count extends KeyedProcessFunction {

        private final int ballastBytes;
        private final String ballastPrefix;
        private transient ValueState held;
        private transient MessageDigest digest;

        public Count(int ballastBytes, String ballastPrefix) {
            this.ballastBytes = ballastBytes;
            this.ballastPrefix = ballastPrefix;
        }

        public void open(OpenContext context) throws Exception {
            held = getRuntimeContext().getState(
                    new ValueStateDescriptor(
                            "count", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
            digest = MessageDigest.getInstance("SHA-512");
        }

        public void processElement(
                Object row, KeyedProcessFunction.Context context, Collector results)
                throws Exception {
            String word = (String) ((Tuple2) row).f1;
            byte[] value = (byte[]) held.value();
            byte[] ballast = word.startsWith(ballastPrefix) ? ballastOf(word) : new byte[0];
            if (value == null) {
                value = new byte[COUNT_BYTES + ballast.length];
            }
            byte[] before = Arrays.copyOfRange(value, COUNT_BYTES, value.length);
            if (Arrays.compare(ballast, before) > 0) {
                System.arraycopy(ballast, 0, value, COUNT_BYTES, ballast.length);
            }
            ByteBuffer counted = ByteBuffer.wrap(value);
            long count = counted.getLong(0) + 1;
            counted.putLong(0, count);
            held.update(value);
            results.collect(new Tuple2(((Tuple2) row).f0, Long.valueOf(count)));
        }

        /** A text that cannot be compressed away and follows from the word, as Spark makes it. */
        private byte[] ballastOf(String word) {
            int hashes = (ballastBytes + HASH_BYTES - 1) / HASH_BYTES;
            byte[] text = new byte[hashes * HASH_BYTES];
            int at = 0;
            for (int number = 1; number <= hashes; number++) {
                byte[] hash = digest.digest((word + number).getBytes(StandardCharsets.UTF_8));
                for (int i = 0; i < hash.length; i++) {
                    text[at++] = hexadecimal((hash[i] >> 4) & 15);
                    text[at++] = hexadecimal(hash[i] & 15);
                }
            }
            return text;
        }

        private static byte hexadecimal(int digit) {
            return (byte) (digit < 10 ? '0' + digit : 'a' + digit - 10);
        }
    }

    /**
     * The count after every row, and when it was first there, at the row's place in a mapped file.
     *
     * <p>A row that comes again after a restart must bring the same count; if not, its count is -1.
     */
    public static final class Results extends RichSinkFunction {

        private final String path;
        private transient MappedByteBuffer results;

        public Results(String path) {
            this.path = path;
        }

        public void open(OpenContext context) throws Exception {
            results = mapped(path, true);
        }

        public void invoke(Object result, SinkFunction.Context context) {
            int at = ((Long) ((Tuple2) result).f0).intValue() * RESULT_BYTES;
            long count = ((Long) ((Tuple2) result).f1).longValue();
            long before = results.getLong(at);
            if (before == 0) {
                results.putLong(at + COUNT_BYTES, System.currentTimeMillis());
                results.putLong(at, count);
            } else if (before != count) {
                results.putLong(at, -1L);
            }
        }
    }
}
