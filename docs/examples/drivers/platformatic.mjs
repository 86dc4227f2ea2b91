// A client driver with @platformatic/kafka (docs/driver.md).
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { compressionsAlgorithms, ProduceAcks, Producer } from '@platformatic/kafka'

const page = new URL('../package.json', import.meta.resolve('@platformatic/kafka'))
const { version } = JSON.parse(readFileSync(page))

const ACKS = { 0: ProduceAcks.NO_RESPONSE, 1: ProduceAcks.LEADER, all: ProduceAcks.ALL }
const NEW_PRODUCER = { producerId: -1n, producerEpoch: -1 }
const REACH_MS = 5000
const BATCH_BYTES = 500_000

let producer, options, linger, deadline
let next, transaction // the one that `init` has begun, the one that is open
let refusal // the first failed send of the open transaction
let turn = Promise.resolve() // the last send of a transaction
const counts = new Map() // topic to the Promise of its number of partitions
const batches = new Map() // by partition: those that records may still join
const unanswered = new Set()

// A refusal by the driver: nothing was sent.
const refuse = (error, message) => ({ error, code: -1, message, queued: false })

// The last error of a broker in one of the library's, which has those of all tries.
function ofBroker(error) {
  if (error?.apiId) return error
  for (const inner of [...(error?.errors ?? [])].reverse().concat(error?.cause ?? [])) {
    const found = ofBroker(inner)
    if (found) return found
  }
}

function failed(error) {
  const found = ofBroker(error)
  const fatal = ['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED'].includes(found?.apiId)
  const name = found?.apiId ?? error.code ?? error.name
  return { error: name, code: found?.apiCode ?? -1, message: (found ?? error).message, fatal }
}

// What the Promise says, or an error after this time: the library may go on.
async function within(time, promise) {
  const late = new AbortController()
  const timedOut = sleep(time, undefined, { signal: late.signal }).then(() => {
    return { error: 'TIMED_OUT', code: -1, message: `no answer in ${time} ms` }
  })
  timedOut.catch(() => {}) // aborted
  return Promise.race([promise, timedOut]).finally(() => late.abort())
}

function open(role, config) {
  if (producer) return refuse('ALREADY_OPEN', 'open comes once')
  if (role !== 'producer') return refuse('UNSUPPORTED', 'its streams are of groups only')
  const compression = config['compression.type']
  if (!compressionsAlgorithms[compression]?.available) {
    return refuse('UNSUPPORTED', `no ${compression}`)
  }
  const idempotent = config['enable.idempotence']
  if (idempotent && config.retries === 0) {
    return refuse('UNSUPPORTED', 'an idempotent producer retries')
  }
  options = { acks: ACKS[config.acks], compression }
  linger = config['linger.ms']
  deadline = config['message.timeout.ms']
  const backoff = config['retry.backoff.ms']
  producer = new Producer({
    clientId: config['client.id'],
    bootstrapBrokers: config['bootstrap.servers'].split(','),
    idempotent,
    transactionalId: config['transactional.id'],
    // The leader's time-out is also that of a transaction.
    timeout: config['transaction.timeout.ms'] ?? config['request.timeout.ms'],
    requestTimeout: config['socket.timeout.ms'],
    // It counts retries, and not their time; of an idempotent producer they have no end.
    retries: idempotent ? undefined : (config.retries ?? Math.ceil(deadline / backoff)),
    retryDelay: (_, operation, attempt, limit, error) => {
      console.error(new Date().toISOString(), operation, attempt, JSON.stringify(failed(error)))
      return backoff
    },
    strict: true,
  })
  return { library: `@platformatic/kafka ${version}` }
}

// Learn a topic's number of partitions, once.
function learn(topic) {
  if (!counts.has(topic)) {
    const learned = producer.metadata({ topics: [topic] })
    counts.set(topic, learned.then(metadata => metadata.topics.get(topic).partitionsCount))
    learned.catch(() => counts.delete(topic))
  }
  return counts.get(topic)
}

// A transaction's sends are awaited, as in the library's pages: of two at once only the first adds
// its partitions to the transaction.
function inTurn(words) {
  const its = transaction
  const sent = turn.then(() => its.send(words))
  turn = sent.catch(() => {})
  return sent
}

// Send records of one partition, and answer with the offset of the first.
async function produce(topic, partition, messages) {
  // The library takes the number of a partition modulo their count, without an error.
  const count = await learn(topic)
  if (partition >= count) return refuse('NO_SUCH_PARTITION', `${topic} has ${count}`)
  const words = { ...options, messages }
  const { offsets } = await (transaction ? inTurn(words) : producer.send(words))
  return offsets ? { offset: Number(offsets[0].offset) } : {}
}

// The library makes a request of each send: records of linger.ms go in one.
async function send({ topic, partition, value }) {
  const key = `${topic} ${partition}`
  let batch = batches.get(key)
  if (!batch || batch.bytes + value.length > BATCH_BYTES) {
    const made = { messages: [], bytes: 0 }
    made.answered = sleep(linger).then(() => {
      if (batches.get(key) === made) batches.delete(key)
      return within(deadline, produce(topic, partition, made.messages))
    })
    const settled = made.answered.catch(failed).then(words => {
      if (words.error) refusal ??= { ...words, queued: undefined }
      unanswered.delete(settled)
    })
    unanswered.add(settled)
    batches.set(key, (batch = made))
  }
  batch.bytes += value.length
  const place = batch.messages.push({ topic, partition, value: Buffer.from(value) }) - 1
  const words = await batch.answered
  return words.offset === undefined ? words : { offset: words.offset + place }
}

// The library asks for a producer id when it begins its first transaction. By default it says that
// it was producer 0, and is fenced if another had the transactional.id.
async function transact(op) {
  if (op === 'init') next = await producer.beginTransaction(NEW_PRODUCER)
  if (op === 'begin') {
    transaction = next ?? (await producer.beginTransaction(NEW_PRODUCER))
    next = refusal = undefined
    turn = Promise.resolve()
  }
  if (op === 'init' || op === 'begin') return {}
  await Promise.all(unanswered)
  // After a failed send the program has to abort, as in the library's pages.
  if (op === 'commit' && refusal) return refusal
  await (op === 'commit' ? transaction.commit() : transaction.abort())
  transaction = undefined
  return {}
}

async function serve(request) {
  if (request.op === 'open') return open(request.role, request.config)
  if (['init', 'begin', 'commit', 'abort'].includes(request.op)) return transact(request.op)
  if (request.op === 'send') return send(request)
  if (request.op === 'reach') return within(REACH_MS, learn(request.topic).then(() => ({})))
  return refuse('UNKNOWN_REQUEST', `${request.op}`)
}

const lines = createInterface({ input: process.stdin })
lines.on('line', async line => {
  const request = JSON.parse(line)
  const words = await serve(request).catch(failed)
  process.stdout.write(JSON.stringify({ id: request.id, ...words }) + '\n')
})
lines.on('close', () => process.exit())
