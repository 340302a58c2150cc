// A local file system that reads as slow storage does: opening and listing wait, and all that a process
// reads goes through one link of known width. It notes what was read. Compiled by Spark's own compiler,
// which knows no generic types.
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

public class SlowFileSystem extends RawLocalFileSystem {
  public URI getUri() { return URI.create("slow:///"); }

  public String getScheme() { return "slow"; }

  public FileStatus[] listStatus(Path path) throws IOException {
    SlowStream.sleep(1000000L * getConf().getInt("slow.open.ms", 0));
    return super.listStatus(path);
  }

  public FSDataInputStream open(Path path, int buffer) throws IOException {
    SlowStream.sleep(1000000L * getConf().getInt("slow.open.ms", 0));
    return new FSDataInputStream(new SlowStream(
      super.open(path, buffer), path, getConf().getDouble("slow.mb.per.s", 1e6), getConf().get("slow.notes")));
  }
}

class SlowStream extends FSInputStream {
  private static final long BURST_NS = 20000000;
  private static long freeNs = System.nanoTime();  // when the link has carried all that was read so far
  private final FSDataInputStream inner;
  private final Path path;
  private final double nsPerByte;
  private final String notes;
  private long size = 0;
  private boolean closed = false;

  public SlowStream(FSDataInputStream given, Path of, double mbPerS, String file) {
    inner = given;
    path = of;
    nsPerByte = 1e3 / mbPerS;
    notes = file;
  }

  static void sleep(long ns) throws IOException {
    if (ns <= 0) return;
    try {
      Thread.sleep(ns / 1000000, (int) (ns % 1000000));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new java.io.InterruptedIOException("interrupted");
    }
  }

  private static synchronized long waitNs(double neededNs) {
    long nowNs = System.nanoTime();
    freeNs = Math.max(freeNs, nowNs - BURST_NS) + (long) neededNs;
    return freeNs - nowNs;
  }

  private int carried(int bytes) throws IOException {
    if (bytes > 0) {
      size += bytes;
      sleep(waitNs(bytes * nsPerByte));
    }
    return bytes;
  }

  public int read() throws IOException {
    int one = inner.read();
    if (one >= 0) carried(1);
    return one;
  }

  public int read(byte[] into, int from, int most) throws IOException { return carried(inner.read(into, from, most)); }

  public void seek(long to) throws IOException { inner.seek(to); }

  public long getPos() throws IOException { return inner.getPos(); }

  public boolean seekToNewSource(long target) { return false; }

  public void close() throws IOException {
    inner.close();
    if (closed || notes == null) return;
    closed = true;
    String line = System.currentTimeMillis() + " " + size + " " + path.toUri().getPath() + "\n";
    FileOutputStream file = new FileOutputStream(notes, true);
    try {
      file.write(line.getBytes("UTF-8"));
    } finally {
      file.close();
    }
  }
}
