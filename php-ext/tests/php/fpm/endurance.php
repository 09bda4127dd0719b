<?php

// A request of FpmEnduranceTest: makes a tool call, and reports the worker's resources.

use Pillion\Exception\PillionException;
use Pillion\MCPSSEClient;

try {
    $result = (new MCPSSEClient($_GET['url'], timeout: 10))->callTool('echo', ['message' => $_GET['message']]);
    $seen = ['answer' => $result['content'][0]['text']];
} catch (PillionException $error) {
    $seen = ['exception' => $error::class, 'message' => $error->getMessage()];
}
preg_match('/^VmRSS:\s+(\d+) kB$/m', (string) file_get_contents('/proc/self/status'), $memory);
echo json_encode($seen + [
    'process' => getmypid(),
    'memory_kb' => (int) $memory[1],
    'descriptors' => count((array) scandir('/proc/self/fd')),
    'threads' => count((array) scandir('/proc/self/task')),
]);
