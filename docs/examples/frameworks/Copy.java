import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/** Copy records with Kafka Streams; an argument is the processing guarantee. */
public class Copy {
  public static void main(String[] args) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("HIGHWATER_GROUP"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArray().getClass());
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArray().getClass());
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[0]);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, "state/" + System.getenv("HIGHWATER_INSTANCE"));
    settings.put("auto.offset.reset", "earliest");
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(System.getenv("HIGHWATER_IN")).to(System.getenv("HIGHWATER_OUT"));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }
}
