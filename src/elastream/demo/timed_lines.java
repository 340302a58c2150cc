package elastream;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.sql.Timestamp;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.execution.streaming.runtime.ContinuousRecordPartitionOffset;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

// A source whose partition n is the file "n" of a folder on this machine. A line is the time in ms
// at which it is due, a space and a value. It is read when it is whole and due, and lines of a file
// are due in their order; so a stream can be written ahead, or while it runs. An offset is a
// position in a file, below 2 GiB: Spark's class for the offset of a partition is the only one that
// the driver can read from a task. The compiler knows neither generics nor lambdas.
public final class TimedLines implements TableProvider, SupportsRead {
  private String folder;

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return this.schema();
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    TimedLines table = new TimedLines();
    table.folder = (String) properties.get("path");
    return table;
  }

  public String name() {
    return "timed lines";
  }

  public StructType schema() {
    return new StructType()
        .add("value", DataTypes.StringType, false)
        .add("timestamp", DataTypes.TimestampType, false);
  }

  public Set capabilities() {
    return Collections.singleton(TableCapability.MICRO_BATCH_READ);
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new TimedLinesScan(this.folder, this.schema());
  }
}

final class TimedLinesScan implements ScanBuilder, Scan {
  private final String folder;
  private final StructType schema;

  TimedLinesScan(String folder, StructType schema) {
    this.folder = folder;
    this.schema = schema;
  }

  public Scan build() {
    return this;
  }

  public StructType readSchema() {
    return this.schema;
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.UNSUPPORTED;
  }

  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return new TimedLinesStream(this.folder);
  }
}

final class TimedLinesStream implements MicroBatchStream, SupportsRealTimeMode {
  private final String folder;
  private final int partitions;
  private final LineFile[] due;

  TimedLinesStream(String folder) {
    this.folder = folder;
    int number = 0;
    while (Files.exists(this.file(number))) {
      number++;
    }
    this.partitions = number;
    this.due = new LineFile[number];
  }

  private Path file(int partition) {
    return Paths.get(this.folder, new String[] {String.valueOf(partition)});
  }

  public Offset initialOffset() {
    return new TimedLinesOffset(new int[this.partitions]);
  }

  public synchronized Offset latestOffset() {
    int[] positions = new int[this.partitions];
    long now = System.currentTimeMillis();
    try {
      for (int i = 0; i < this.partitions; i++) {
        if (this.due[i] == null) {
          this.due[i] = new LineFile(this.file(i).toString(), 0);
        }
        while (this.due[i].nextDueMs() <= now) {
          this.due[i].take();
        }
        positions[i] = this.due[i].position();
      }
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
    return new TimedLinesOffset(positions);
  }

  public Offset deserializeOffset(String json) {
    return TimedLinesOffset.of(json);
  }

  public Offset mergeOffsets(PartitionOffset[] offsets) {
    int[] positions = new int[this.partitions];
    for (int i = 0; i < offsets.length; i++) {
      ContinuousRecordPartitionOffset each = (ContinuousRecordPartitionOffset) offsets[i];
      positions[each.partitionId()] = each.offset();
    }
    return new TimedLinesOffset(positions);
  }

  public InputPartition[] planInputPartitions(Offset start) {
    int[] ends = new int[this.partitions];
    for (int i = 0; i < ends.length; i++) {
      ends[i] = Integer.MAX_VALUE;
    }
    return this.planInputPartitions(start, new TimedLinesOffset(ends));
  }

  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    int[] starts = ((TimedLinesOffset) start).positions;
    int[] ends = ((TimedLinesOffset) end).positions;
    InputPartition[] made = new InputPartition[this.partitions];
    for (int i = 0; i < made.length; i++) {
      made[i] = new TimedLinesPartition(this.file(i).toString(), i, starts[i], ends[i]);
    }
    return made;
  }

  public PartitionReaderFactory createReaderFactory() {
    return new TimedLinesReaders();
  }

  public void commit(Offset end) {}

  public synchronized void stop() {
    for (int i = 0; i < this.due.length; i++) {
      if (this.due[i] != null) {
        this.due[i].close();
        this.due[i] = null;
      }
    }
  }
}

final class TimedLinesOffset extends Offset {
  final int[] positions;

  TimedLinesOffset(int[] positions) {
    this.positions = positions;
  }

  static TimedLinesOffset of(String json) {
    String[] texts = json.substring(1, json.length() - 1).split(",");
    int[] positions = new int[texts.length];
    for (int i = 0; i < positions.length; i++) {
      positions[i] = Integer.parseInt(texts[i].trim());
    }
    return new TimedLinesOffset(positions);
  }

  public String json() {
    StringBuilder text = new StringBuilder("[");
    for (int i = 0; i < this.positions.length; i++) {
      text.append(i == 0 ? "" : ",").append(this.positions[i]);
    }
    return text.append("]").toString();
  }
}

final class TimedLinesPartition implements InputPartition {
  final String file;
  final int partition;
  final int start;
  final int end;

  TimedLinesPartition(String file, int partition, int start, int end) {
    this.file = file;
    this.partition = partition;
    this.start = start;
    this.end = end;
  }
}

final class TimedLinesReaders implements PartitionReaderFactory {
  public PartitionReader createReader(InputPartition partition) {
    try {
      return new TimedLinesReader((TimedLinesPartition) partition);
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
  }
}

final class TimedLinesReader implements SupportsRealTimeRead {
  private static final long POLL_MS = 2;
  private final TimedLinesPartition partition;
  private final LineFile lines;

  TimedLinesReader(TimedLinesPartition partition) throws IOException {
    this.partition = partition;
    this.lines = new LineFile(partition.file, partition.start);
  }

  public SupportsRealTimeRead.RecordStatus nextWithTimeout(Long timeoutMs) throws IOException {
    long end = System.currentTimeMillis() + timeoutMs.longValue();
    while (true) {
      long due = this.lines.nextDueMs();
      long now = System.currentTimeMillis();
      if (due <= now) {
        this.lines.take();
        return SupportsRealTimeRead.RecordStatus.newStatusWithArrivalTimeMs(Long.valueOf(due));
      }
      if (now >= end) {
        return SupportsRealTimeRead.RecordStatus.newStatusWithoutArrivalTime(false);
      }
      try {
        Thread.sleep(due == Long.MAX_VALUE ? POLL_MS : Math.min(due, end) - now);
      } catch (InterruptedException e) {
        throw new IOException(e);
      }
    }
  }

  public boolean next() throws IOException {
    if (this.lines.position() >= this.partition.end) {
      return false;
    }
    this.lines.nextDueMs();
    this.lines.take();
    return true;
  }

  public Object get() {
    Long micros = Long.valueOf(1000 * this.lines.dueMs);
    return new GenericInternalRow(new Object[] {this.lines.value, micros});
  }

  public PartitionOffset getOffset() {
    return new ContinuousRecordPartitionOffset(this.partition.partition, this.lines.position());
  }

  public void close() {
    this.lines.close();
  }
}

// Reads the lines of a file that another process may be writing.
final class LineFile {
  long dueMs;
  UTF8String value;
  private final RandomAccessFile file;
  private byte[] buffer = new byte[8192];
  private int position;
  private int from;
  private int filled;
  private int newline = -1;
  private int space;
  private long nextMs;

  LineFile(String path, int position) throws IOException {
    this.file = new RandomAccessFile(path, "r");
    this.file.seek(position);
    this.position = position;
  }

  // Where the line begins that is taken next.
  int position() {
    return this.position;
  }

  // When the next line is due; never, while there is no whole one.
  long nextDueMs() throws IOException {
    int searched = this.from;
    while (this.newline < 0) {
      for (int i = searched; i < this.filled && this.newline < 0; i++) {
        if (this.buffer[i] == '\n') {
          this.newline = i;
        }
      }
      if (this.newline < 0) {
        searched = this.filled - this.from;
        if (!this.fill()) {
          return Long.MAX_VALUE;
        }
      } else {
        this.space = this.from;
        while (this.buffer[this.space] != ' ') {
          this.space++;
        }
        String due = new String(
            this.buffer, this.from, this.space - this.from, StandardCharsets.US_ASCII);
        this.nextMs = Long.parseLong(due);
      }
    }
    return this.nextMs;
  }

  private boolean fill() throws IOException {
    System.arraycopy(this.buffer, this.from, this.buffer, 0, this.filled - this.from);
    this.filled -= this.from;
    this.from = 0;
    if (this.filled == this.buffer.length) {
      byte[] larger = new byte[2 * this.filled];
      System.arraycopy(this.buffer, 0, larger, 0, this.filled);
      this.buffer = larger;
    }
    int read = this.file.read(this.buffer, this.filled, this.buffer.length - this.filled);
    if (read > 0) {
      this.filled += read;
    }
    return read > 0;
  }

  // Takes the next line, which nextDueMs has found.
  void take() {
    int begin = this.space + 1;
    byte[] text = new byte[this.newline - begin];
    System.arraycopy(this.buffer, begin, text, 0, text.length);
    this.value = UTF8String.fromBytes(text);
    this.dueMs = this.nextMs;
    this.position += this.newline + 1 - this.from;
    this.from = this.newline + 1;
    this.newline = -1;
  }

  void close() {
    try {
      this.file.close();
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
  }
}

// A sink that writes each row at once, as a line of a file: the time in ms, the batch, the partition
// and the values, with tabs between. A time among the values is in ms. Before that, each row takes
// some CPU time of the task's thread.
public final class TimedRows extends ForeachWriter implements Serializable {
  private final String folder;
  private final long workNs;
  private transient OutputStream file;
  private transient String place;

  public TimedRows(String folder, Number workNs) {
    this.folder = folder;
    this.workNs = workNs.longValue();
  }

  public boolean open(long partition, long batch) {
    String name = partition + "-" + batch + "-" + UUID.randomUUID();
    this.place = batch + "\t" + partition;
    try {
      this.file = new FileOutputStream(Paths.get(this.folder, new String[] {name}).toFile());
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
    return true;
  }

  public void process(Object value) {
    if (this.workNs > 0) {
      ThreadMXBean threads = ManagementFactory.getThreadMXBean();
      long end = threads.getCurrentThreadCpuTime() + this.workNs;
      while (threads.getCurrentThreadCpuTime() < end) {}
    }
    Row row = (Row) value;
    StringBuilder line = new StringBuilder();
    line.append(System.currentTimeMillis()).append('\t').append(this.place);
    for (int i = 0; i < row.length(); i++) {
      Object each = row.get(i);
      line.append('\t');
      if (each instanceof Timestamp) {
        line.append(((Timestamp) each).getTime());
      } else {
        line.append(each);
      }
    }
    try {
      this.file.write(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
  }

  public void close(Throwable error) {
    try {
      if (this.file != null) {
        this.file.close();
      }
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
  }
}
