# Every text mentions coffee: SmolLM2 in a chat, guaranteed to a TVD of 0.2.
quasir models get smollm2
quasir run --base quasir/smollm2 --chat "Describe your morning." \
    --contains coffee --tvd 0.2 --draws 2000
