/**
 * Tools for tests of graphs and of what they run on.
 */
export { type Case, cases, checkpointerSuite, type Options, type Runner } from "./CheckpointerSuite.js"
