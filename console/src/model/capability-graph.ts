/** The places of capabilities in a drawing of what uses what: columns from dependents to dependencies. Pure. */
import type { CapabilityGraph, Impact } from "@a2s/core";

export const NODE = { width: 200, height: 40, gapX: 72, gapY: 16 };
/** With more, a list says more than a drawing. */
export const MAX_NODES = 60;

export interface PlacedNode {
    id: string;
    name: string;
    version: string;
    yanked: boolean;
    /** False for a capability of which no version fits. */
    isKnown: boolean;
    x: number;
    y: number;
}

export interface PlacedEdge {
    from: PlacedNode;
    to: PlacedNode;
    range: string;
    pinned: boolean;
}

export interface Drawing {
    nodes: PlacedNode[];
    edges: PlacedEdge[];
    width: number;
    height: number;
}

interface Edge {
    from: string;
    to: string;
    range: string;
    pinned: boolean;
}

/** Returns the edges of a graph; where no version fits, the edge ends at the name with its range. */
export function edgesOf(graph: CapabilityGraph): Edge[] {
    return graph.edges.map(({ from, to, uses, range, pinned }) => ({
        from,
        to: to ?? `${uses}@${range}`,
        range,
        pinned,
    }));
}

/** Returns the column of each node: 0 for the root, more for what it uses, less for what uses it. */
export function columnsOf(root: string, edges: Edge[]): Map<string, number> {
    const columns = new Map([[root, 0]]);
    const walk = (direction: 1 | -1): void => {
        let present = [root];
        const seen = new Set(present);
        for (let column = direction; present.length > 0; column += direction) {
            const next = new Set<string>();
            for (const { from, to } of edges) {
                const [near, far] = direction === 1 ? [from, to] : [to, from];
                if (present.includes(near) && !seen.has(far)) {
                    next.add(far);
                }
            }
            for (const id of next) {
                seen.add(id);
                columns.set(id, columns.get(id) ?? column);
            }
            present = [...next];
        }
    };
    walk(1);
    walk(-1);
    // What is reached by neither way alone stands beside a neighbour.
    for (let round = 0; round < edges.length; round += 1) {
        const open = edges.filter(({ from, to }) => columns.has(from) !== columns.has(to));
        for (const { from, to } of open) {
            const [fromColumn, toColumn] = [columns.get(from), columns.get(to)];
            if (fromColumn !== undefined && toColumn === undefined) {
                columns.set(to, fromColumn + 1);
            } else if (toColumn !== undefined && fromColumn === undefined) {
                columns.set(from, toColumn - 1);
            }
        }
        if (open.length === 0) {
            break;
        }
    }
    return columns;
}

/** Returns the drawing of a graph. */
export function drawGraph(graph: CapabilityGraph): Drawing {
    const edges = edgesOf(graph);
    const columns = columnsOf(graph.root, edges);
    const known = new Map(graph.nodes.map((node) => [node.id, node]));
    const ids = new Set([graph.root, ...known.keys(), ...edges.flatMap(({ from, to }) => [from, to])]);
    const byColumn = new Map<number, string[]>();
    for (const id of ids) {
        const column = columns.get(id) ?? 0;
        byColumn.set(column, [...(byColumn.get(column) ?? []), id]);
    }
    const order = [...byColumn.keys()].sort((a, b) => a - b);
    const rows = Math.max(...[...byColumn.values()].map((ids) => ids.length));
    const height = rows * (NODE.height + NODE.gapY) - NODE.gapY;
    const placed = new Map<string, PlacedNode>();
    // Columns from the root outwards, so that each is ordered by neighbours that have their places.
    for (const column of [...order].sort((a, b) => Math.abs(a) - Math.abs(b))) {
        const ids = sortByNeighbours(byColumn.get(column) ?? [], edges, placed);
        const top = (height - (ids.length * (NODE.height + NODE.gapY) - NODE.gapY)) / 2;
        for (const [index, id] of ids.entries()) {
            const node = known.get(id);
            placed.set(id, {
                id,
                name: node?.name ?? id.split("@")[0] ?? id,
                version: node?.version ?? id.split("@")[1] ?? "",
                yanked: node?.yanked ?? false,
                isKnown: node !== undefined,
                x: order.indexOf(column) * (NODE.width + NODE.gapX),
                y: top + index * (NODE.height + NODE.gapY),
            });
        }
    }
    return {
        nodes: [...placed.values()],
        edges: edges.flatMap(({ from, to, range, pinned }) => {
            const [a, b] = [placed.get(from), placed.get(to)];
            return a && b ? [{ from: a, to: b, range, pinned }] : [];
        }),
        width: order.length * (NODE.width + NODE.gapX) - NODE.gapX,
        height,
    };
}

function sortByNeighbours(ids: string[], edges: Edge[], placed: Map<string, PlacedNode>): string[] {
    const middle = (id: string): number => {
        const ys = edges
            .filter(({ from, to }) => from === id || to === id)
            .map(({ from, to }) => placed.get(from === id ? to : from)?.y)
            .filter((y) => y !== undefined);
        return ys.length === 0 ? 0 : ys.reduce((sum, y) => sum + y, 0) / ys.length;
    };
    return ids
        .map((id) => ({ id, middle: middle(id) }))
        .sort((a, b) => a.middle - b.middle || (a.id < b.id ? -1 : 1))
        .map(({ id }) => id);
}

/** Says what would happen if a version were yanked. */
export function describeImpact(impact: Impact): string {
    const parts = [
        impact.broken.length > 0 ? `${count(impact.broken.length)} would break` : "",
        impact.changed.length > 0 ? `${count(impact.changed.length)} would use something else` : "",
        impact.pinned.length > 0 ? `${count(impact.pinned.length)} would keep it by a pin` : "",
    ].filter(Boolean);
    return parts.length === 0
        ? "If this version is yanked, no capability is affected."
        : `If this version is yanked: ${parts.join(", ")}.`;
}

const count = (number: number): string => (number === 1 ? "1 capability" : `${number} capabilities`);
