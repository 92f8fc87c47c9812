// Archived runs: left out of the table, of groups and of analyses, unless they are requested or the filter names their tag. No DOM.
import { both, compares, isValid } from "../data/filter";

export const ARCHIVED = "archived";

/** The filter without archived runs. One that is not valid stays as it is, so that the error refers to it. */
export const withoutArchived = (filter: string): string => (!isValid(filter) || compares(filter, "tag", ARCHIVED) ? filter : both(filter, `not tag = ${ARCHIVED}`));

/** The filter of the runs that a page with this query shows: `archived=1` requests the archived ones. */
export const shownFilter = (filter: string, query: URLSearchParams): string => (query.get("archived") === "1" ? filter : withoutArchived(filter));
