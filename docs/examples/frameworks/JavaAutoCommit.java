import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Copy records with Kafka's own client: what a poll returns is written before the next poll. */
public class JavaAutoCommit {
  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
    settings.put("group.id", System.getenv("HIGHWATER_GROUP"));
    settings.put("group.protocol", "consumer");
    settings.put("auto.offset.reset", "earliest");
    settings.put("auto.commit.interval.ms", "200");
    for (String side : List.of("key", "value")) {
      String place = "org.apache.kafka.common.serialization.ByteArray";
      settings.put(side + ".deserializer", place + "Deserializer");
      settings.put(side + ".serializer", place + "Serializer");
    }
    KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
    consumer.subscribe(List.of(System.getenv("HIGHWATER_IN")));
    while (true) {
      var polled = consumer.poll(Duration.ofSeconds(1));
      Thread.sleep(polled.isEmpty() ? 0 : 4000); // the work
      List<Future<?>> sent = new ArrayList<>();
      polled.forEach(r -> sent.add(producer.send(
          new ProducerRecord<>(System.getenv("HIGHWATER_OUT"), r.key(), r.value()))));
      for (Future<?> one : sent) {
        one.get();
      }
    }
  }
}
