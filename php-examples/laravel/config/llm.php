<?php

/* Any endpoint in OpenAI's shape. `run` starts one that only looks like a model; see README.md for a real one. */

return [
    'url' => env('LLM_URL', 'http://127.0.0.1:8081/v1'),
    'key' => env('LLM_KEY'),
];
