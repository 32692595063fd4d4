/**
 * The state of a graph with many channels, as nodes and routers see it: a record whose values are looked up when they
 * are asked for, so that a node pays for what it touches.
 *
 * It behaves as the plain record that it stands for and becomes one as soon as anything but a value is asked for. Only
 * `structuredClone` tells the difference: it takes a copy, `{ ...state }`.
 */
import { MISSING } from "../Channel.js"

/** Records with fewer values are made at once. */
export const WIDE = 32

/** Which values a record has: names with their positions in an array of values. */
export interface Shape {
  readonly positions: ReadonlyMap<string, number>
  /** Length of the array of values. */
  readonly length: number
}

type Target = Record<PropertyKey, unknown>

const INSPECT = Symbol.for("nodejs.util.inspect.custom")

/** What a record that is not filled yet inherits: consoles look at the target, not at the record. */
const UNFILLED = Object.create(Object.prototype, {
  [INSPECT]: {
    value(this: Target) {
      return { ...this }
    }
  }
})

class Handler implements ProxyHandler<Target> {
  constructor(
    private readonly shape: Shape,
    private values: ReadonlyArray<unknown> | undefined,
    private readonly own: ReadonlyMap<number, unknown> | undefined
  ) {}

  private valueAt(position: number): unknown {
    return this.own?.has(position) ? this.own.get(position) : this.values![position]
  }

  private fill(target: Target): Target {
    if (this.values === undefined) return target
    Object.setPrototypeOf(target, Object.prototype)
    for (const [name, position] of this.shape.positions) {
      const value = this.valueAt(position)
      if (value !== MISSING) define(target, name, value)
    }
    this.values = undefined
    return target
  }

  private lookUp(key: PropertyKey): unknown {
    const position = typeof key === "string" ? this.shape.positions.get(key) : undefined
    return position === undefined ? MISSING : this.valueAt(position)
  }

  get(target: Target, key: PropertyKey) {
    if (this.values === undefined) return target[key]
    const value = this.lookUp(key)
    return value === MISSING ? Reflect.get(Object.prototype, key, target) : value
  }
  has(target: Target, key: PropertyKey) {
    if (this.values === undefined) return key in target
    return this.lookUp(key) !== MISSING || key in Object.prototype
  }
  getPrototypeOf(target: Target) {
    return Object.getPrototypeOf(this.fill(target))
  }
  setPrototypeOf(target: Target, prototype: object | null) {
    return Reflect.setPrototypeOf(this.fill(target), prototype)
  }
  ownKeys(target: Target) {
    return Reflect.ownKeys(this.fill(target))
  }
  getOwnPropertyDescriptor(target: Target, key: PropertyKey) {
    return Reflect.getOwnPropertyDescriptor(this.fill(target), key)
  }
  set(target: Target, key: PropertyKey, value: unknown) {
    return Reflect.set(this.fill(target), key, value)
  }
  defineProperty(target: Target, key: PropertyKey, descriptor: PropertyDescriptor) {
    return Reflect.defineProperty(this.fill(target), key, descriptor)
  }
  deleteProperty(target: Target, key: PropertyKey) {
    return Reflect.deleteProperty(this.fill(target), key)
  }
  preventExtensions(target: Target) {
    return Reflect.preventExtensions(this.fill(target))
  }
}

/** Adds a property as an object literal does, whatever its name. */
const define = (target: Target, name: string, value: unknown): void => {
  if (name === "__proto__") {
    Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true })
  } else {
    target[name] = value
  }
}

/** A record of these values, some of them replaced; neither must change any more. */
export const make = (
  shape: Shape,
  values: ReadonlyArray<unknown>,
  own?: ReadonlyMap<number, unknown>
): Record<string, unknown> => new Proxy(Object.create(UNFILLED) as Target, new Handler(shape, values, own))
