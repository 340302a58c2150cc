package elastream;

import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;

// Gives rows on as they come and keeps nothing: its state is empty, but it has a place.
public final class PlacedRows extends StatefulProcessor {
  public void init(OutputMode output, TimeMode time) {}

  public scala.collection.Iterator handleInputRows(
      Object key, scala.collection.Iterator rows, TimerValues times) {
    return rows;
  }
}
