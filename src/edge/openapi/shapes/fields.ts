import * as z from 'zod';

/** Fields that several objects have. */

/** Dollars, exact to the nano-dollar. */
export const dollars = z.number();
/** A time in ISO 8601, in UTC. */
export const time = z.iso.datetime();
/** A count. */
export const count = z.int().min(0);
/** The id of an object: a number. */
export const id = z.int().min(1);
/** Tags. */
export const tags = z.record(z.string(), z.string()).describe('Key-value pairs, as `{"team": "search"}`.');
/** Free-form JSON. */
export const anyObject = z.record(z.string(), z.unknown());
