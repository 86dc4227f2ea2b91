// Copy records with @platformatic/kafka: an output is awaited, and then its input is committed.
import { Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const { KAFKA_BOOTSTRAP_SERVERS, HIGHWATER_IN, HIGHWATER_OUT, HIGHWATER_GROUP } = process.env
const client = { clientId: 'copy', bootstrapBrokers: KAFKA_BOOTSTRAP_SERVERS.split(',') }
const consumer = new Consumer({ ...client, groupId: HIGHWATER_GROUP, deserializers: stringDeserializers })
const producer = new Producer({ ...client, serializers: stringSerializers })
const stream = await consumer.consume({
  topics: [HIGHWATER_IN],
  mode: 'committed',
  fallbackMode: 'earliest',
  autocommit: false,
  maxWaitTime: 100,
})
process.once('SIGTERM', () => stream.close())
for await (const message of stream) {
  await producer.send({ messages: [{ topic: HIGHWATER_OUT, key: message.key, value: message.value }] })
  await message.commit()
}
await consumer.close()
await producer.close()
