// A client driver with KafkaJS (docs/driver.md).
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const require = createRequire(import.meta.url)
const { Kafka, CompressionTypes } = require('kafkajs')
const { version } = require('kafkajs/package.json')

// KafkaJS has no codec of its own but gzip.
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }
const BATCH_BYTES = 500_000

let producer, options, linger, deadline
let connecting // the Promise of the producer's connection
let next, transaction // the one that `init` has begun, the one that is open
let refusal // the first failed send of the open transaction
const batches = new Map() // by partition: those that records may still join
const unanswered = new Set()

// A refusal by the driver: nothing was sent.
const refuse = (error, message) => ({ error, code: -1, message, queued: false })

// KafkaJS wraps a broker's error, which has a type and a number. Codes of others are strings.
function failed(error) {
  while (error.cause && error.type === undefined) error = error.cause
  const code = typeof error.code === 'number' ? error.code : -1
  return { error: error.type ?? error.name, code, message: error.message }
}

function open(role, config) {
  if (producer) return refuse('ALREADY_OPEN', 'open comes once')
  if (role !== 'producer') return refuse('UNSUPPORTED', 'KafkaJS reads in groups only')
  const compression = CODECS[config['compression.type']]
  if (compression === undefined) return refuse('UNSUPPORTED', `no ${config['compression.type']}`)
  const timeout = config['request.timeout.ms']
  options = { acks: config.acks === 'all' ? -1 : Number(config.acks), timeout, compression }
  linger = config['linger.ms']
  deadline = config['message.timeout.ms']
  const kafka = new Kafka({
    brokers: config['bootstrap.servers'].split(','),
    clientId: config['client.id'],
    requestTimeout: timeout,
    retry: { initialRetryTime: 100, maxRetryTime: 1000 },
    logCreator: () => ({ label, log }) => console.error(label, JSON.stringify(log)),
  })
  producer = kafka.producer({
    idempotent: config['enable.idempotence'],
    transactionalId: config['transactional.id'],
    transactionTimeout: config['transaction.timeout.ms'],
    maxInFlightRequests: config['transactional.id'] ? 1 : undefined, // as its page asks for
    allowAutoTopicCreation: false,
    // KafkaJS counts retries, and not their time.
    retry: { retries: config.retries ?? Math.ceil(deadline / 1000) },
  })
  return { library: `kafkajs ${version}` }
}

// KafkaJS asks for a producer id when an idempotent producer connects, which may fail.
function connect() {
  connecting ??= producer.connect().catch(error => {
    connecting = undefined
    throw error
  })
  return connecting
}

// Send records of one partition, and answer with the offset of the first. KafkaJS has no time-out
// for all tries of a send: after this one it may still try.
async function produce(topic, messages) {
  const late = new AbortController()
  const timedOut = sleep(deadline, undefined, { signal: late.signal }).then(() => {
    return { error: 'MESSAGE_TIMED_OUT', code: -1, message: `no answer in ${deadline} ms` }
  })
  const sent = connect().then(() => (transaction ?? producer).send({ ...options, topic, messages }))
  const answered = sent.then(([first]) => {
    if (first) return { offset: Number(first.baseOffset) }
    // KafkaJS passes over records of a partition that it does not know, without an error.
    if (messages.length && options.acks !== 0) return refuse('NOT_SENT', 'no such partition')
    return {}
  })
  timedOut.catch(() => {}) // aborted
  return Promise.race([answered, timedOut]).finally(() => late.abort())
}

// KafkaJS makes a request of each send: records of linger.ms go in one.
async function send({ topic, partition, value }) {
  const key = `${topic} ${partition}`
  let batch = batches.get(key)
  if (!batch || batch.bytes + value.length > BATCH_BYTES) {
    const made = { messages: [], bytes: 0 }
    made.answered = sleep(linger).then(() => {
      if (batches.get(key) === made) batches.delete(key)
      return produce(topic, made.messages)
    })
    const settled = made.answered.catch(failed).then(words => {
      if (words.error) refusal ??= { ...words, queued: undefined }
      unanswered.delete(settled)
    })
    unanswered.add(settled)
    batches.set(key, (batch = made))
  }
  batch.bytes += value.length
  const place = batch.messages.push({ partition, value }) - 1
  const words = await batch.answered
  return words.offset === undefined ? words : { offset: words.offset + place }
}

// KafkaJS asks for a producer id when it begins a transaction.
async function transact(op) {
  if (op === 'init') {
    await connect()
    next = await producer.transaction()
  }
  if (op === 'begin') {
    transaction = next ?? (await producer.transaction())
    next = refusal = undefined
  }
  if (op === 'init' || op === 'begin') return {}
  await Promise.all(unanswered)
  // After a failed send the program has to abort, as in the library's pages.
  if (op === 'commit' && refusal) return refusal
  const ended = transaction
  await (op === 'commit' ? ended.commit() : ended.abort())
  transaction = undefined
  return {}
}

// The group of a transaction's offsets, without members.
async function offsets({ topic, offsets, member: consumerGroupId }) {
  const partitions = Object.entries(offsets).map(([partition, offset]) => {
    return { partition: Number(partition), offset: `${offset}` }
  })
  await transaction.sendOffsets({ consumerGroupId, topics: [{ topic, partitions }] })
  return {}
}

async function serve(request) {
  if (request.op === 'open') return open(request.role, request.config)
  if (['init', 'begin', 'commit', 'abort'].includes(request.op)) return transact(request.op)
  if (request.op === 'offsets') return offsets(request)
  if (request.op === 'send') return send(request)
  if (request.op === 'reach') return produce(request.topic, []) // asks for metadata only
  return refuse('UNKNOWN_REQUEST', `${request.op}`)
}

const lines = createInterface({ input: process.stdin })
lines.on('line', async line => {
  const request = JSON.parse(line)
  const words = await serve(request).catch(failed)
  process.stdout.write(JSON.stringify({ id: request.id, ...words }) + '\n')
})
lines.on('close', () => process.exit())
