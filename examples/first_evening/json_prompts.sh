# Valid JSON for each chat of a file: one certificate per prompt, and one for all.
quasir run ../chats/reviews.yaml --contexts ../chats/reviews.jsonl --out runs/reviews
