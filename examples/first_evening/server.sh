# A model behind a server: llama.cpp, vLLM or SGLang. The probe says what it is good for.
quasir doctor --server "$SERVER"
quasir run --base "$SERVER" --prompt "My favourite drink is" --contains coffee --tvd 0.2 --max-tokens 16 --draws 500
