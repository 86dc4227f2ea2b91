// Copy records with @platformatic/kafka in a group of KIP-848, or a `classic` one: at most once. With
// `owned` records are passed that are no longer the member's, or that it has read before.
import { Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const { KAFKA_BOOTSTRAP_SERVERS, HIGHWATER_IN, HIGHWATER_OUT, HIGHWATER_GROUP } = process.env
const client = { clientId: 'copy', bootstrapBrokers: KAFKA_BOOTSTRAP_SERVERS.split(',') }
const consumer = new Consumer({
  ...client,
  groupId: HIGHWATER_GROUP,
  groupProtocol: process.argv.includes('classic') ? 'classic' : 'consumer',
  deserializers: stringDeserializers,
})
const producer = new Producer({ ...client, serializers: stringSerializers })
const stream = await consumer.consume({
  topics: [HIGHWATER_IN],
  mode: 'committed',
  fallbackMode: 'earliest',
  autocommit: false,
  maxWaitTime: 100,
})
const done = new Map()
const passed = ({ partition, offset }) =>
  offset <= (done.get(partition) ?? -1n) ||
  !consumer.assignments?.some(({ partitions }) => partitions.includes(partition))
process.once('SIGTERM', () => stream.close())
for await (const message of stream) {
  if (process.argv.includes('owned') && passed(message)) continue
  done.set(message.partition, message.offset)
  await message.commit()
  await producer.send({ messages: [{ topic: HIGHWATER_OUT, key: message.key, value: message.value }] })
}
await consumer.close()
await producer.close()
