// A GraphQL service of graphql-yoga, for the tests of the executor.
// node yoga.mjs FOLDER: FOLDER has node_modules.
import { createRequire } from "node:module";
import { createServer } from "node:http";

const [folder] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { createSchema, createYoga } = require("graphql-yoga");
const { GraphQLError } = require("graphql");

const books = [
  { id: "1", title: "The Trial", genre: "NOVEL", copies: 2 },
  { id: "2", title: "The Castle", genre: "NOVEL", copies: 0 },
];

const schema = createSchema({
  typeDefs: /* GraphQL */ `
    enum Genre { NOVEL POEM }
    type Book { id: ID! title: String! genre: Genre! copies: Int! review: String }
    input NewBook { title: String! genre: Genre! copies: Int = 1 }
    type Query { books(genre: Genre, first: Int): [Book!]! book(id: ID!): Book secret: String! }
    type Mutation { addBook(input: NewBook!): Book! }
  `,
  resolvers: {
    Query: {
      books: (_, { genre, first }) =>
        books.filter((book) => !genre || book.genre === genre).slice(0, first ?? undefined),
      book: (_, { id }) => books.find((book) => book.id === id) ?? null,
      secret: () => {
        throw new GraphQLError("not for you", { extensions: { code: "FORBIDDEN" } });
      },
    },
    Mutation: {
      addBook: (_, { input }) => {
        const book = { id: String(books.length + 1), ...input };
        books.push(book);
        return book;
      },
    },
    Book: {
      review: ({ id }) => {
        if (id === "2") throw new GraphQLError("no review was written");
        return "Read it.";
      },
    },
  },
});

// Automatic persisted queries, as Apollo describes them.
const store = new Map();
const persisted = {
  onParams({ params, setParams }) {
    const hash = params.extensions?.persistedQuery?.sha256Hash;
    if (!hash) return;
    if (params.query) {
      store.set(hash, params.query);
    } else if (store.has(hash)) {
      setParams({ ...params, query: store.get(hash) });
    } else {
      const extensions = { code: "PERSISTED_QUERY_NOT_FOUND" };
      throw new GraphQLError("PersistedQueryNotFound", { extensions });
    }
  },
};

const yoga = createYoga({ schema, plugins: [persisted], logging: false, landingPage: false });
const server = createServer(yoga);
// A port that is free: which, it says.
server.listen(0, "127.0.0.1", () =>
  console.log(`listening on http://127.0.0.1:${server.address().port}`),
);
