// A member of a group that prints the values of a topic's records, and commits each:
// node group_readers.mjs LIBRARY BOOTSTRAP TOPIC
const [library, bootstrap, topic] = process.argv.slice(2)
const brokers = bootstrap.split(',')
const times = { sessionTimeout: 10_000, rebalanceTimeout: 10_000 }
const START = { mode: 'committed', fallbackMode: 'earliest', autocommit: false }
const print = message => console.log(`${message.value}`)

if (library === 'kafkajs') {
  const { Kafka, logLevel } = (await import('kafkajs')).default
  const kafka = new Kafka({ clientId: library, brokers, logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId: library, ...times })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const eachMessage = async ({ message }) => print(message)
  await consumer.run({ autoCommitThreshold: 1, eachMessage })
} else {
  const { Consumer } = await import('@platformatic/kafka')
  const names = { groupId: library, clientId: library, bootstrapBrokers: brokers }
  const consumer = new Consumer({ ...names, ...times })
  const stream = await consumer.consume({ ...START, topics: [topic] })
  for await (const message of stream) {
    print(message)
    await message.commit()
  }
}
