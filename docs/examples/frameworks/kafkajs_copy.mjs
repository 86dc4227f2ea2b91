// Copy records with KafkaJS: eachMessage awaits the output, positions are committed by themselves.
import { Kafka, logLevel } from 'kafkajs'

const { KAFKA_BOOTSTRAP_SERVERS, HIGHWATER_IN, HIGHWATER_OUT, HIGHWATER_GROUP } = process.env
const kafka = new Kafka({ brokers: KAFKA_BOOTSTRAP_SERVERS.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: HIGHWATER_GROUP })
const producer = kafka.producer()

await producer.connect()
await consumer.connect()
await consumer.subscribe({ topic: HIGHWATER_IN, fromBeginning: true })
await consumer.run({
  autoCommitInterval: 1000,
  eachMessage: async ({ message }) => {
    await producer.send({ topic: HIGHWATER_OUT, messages: [{ key: message.key, value: message.value }] })
  },
})
process.once('SIGTERM', async () => {
  await consumer.disconnect()
  await producer.disconnect()
})
