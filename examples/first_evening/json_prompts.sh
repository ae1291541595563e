# Valid JSON for each chat of a file: one certificate per prompt, and one for all.
quasir run examples/chats/reviews.yaml --contexts examples/chats/reviews.jsonl
